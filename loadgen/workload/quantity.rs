//! Sizes, times, counts and rates as people write them: `64KiB`, `500ms`, `10k`, `50k/s`. Knows no
//! setting.

use std::time::Duration;

const BYTE_UNITS: &[(&str, f64)] = &[
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("B", 1.0),
    ("", 1.0),
];
const TIME_UNITS: &[(&str, f64)] = &[
    ("ms", 1e6),
    ("us", 1e3),
    ("ns", 1.0),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3_600e9),
];
const COUNT_UNITS: &[(&str, f64)] = &[("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)];

/// A size in bytes: `100`, `100B`, `1KiB`, `64 KiB`, `1.5MB`.
///
/// # Errors
/// What would be right instead.
pub fn bytes(text: &str) -> Result<u64, String> {
    scaled(text, BYTE_UNITS, "a size such as 100B, 1KiB or 64KiB")
}

/// A time: `500ms`, `30s`, `2m`.
///
/// # Errors
/// What would be right instead.
pub fn time(text: &str) -> Result<Duration, String> {
    scaled(
        text,
        TIME_UNITS,
        "a time with its unit, such as 500ms, 30s or 2m",
    )
    .map(Duration::from_nanos)
}

/// A count: `50`, `10k`, `1M`.
///
/// # Errors
/// What would be right instead.
pub fn count(text: &str) -> Result<u64, String> {
    scaled(text, COUNT_UNITS, "a count such as 50, 10k or 1M")
}

/// Records per second: `500/s`, `10k/s`; the `/s` may be left out.
///
/// # Errors
/// What would be right instead.
pub fn rate(text: &str) -> Result<f64, String> {
    let expected = "records per second, such as 500/s or 10k/s";
    let number = text.trim().trim_end_matches("/s");
    let value = scaled(number, COUNT_UNITS, expected)?;
    if value == 0 {
        return Err(format!("must be {expected}, and not zero"));
    }
    Ok(value as f64)
}

/// A share between 0 and 1.
///
/// # Errors
/// What would be right instead.
pub fn share(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok();
    let value = value.filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| format!("must be a share between 0 and 1, not {text:?}"))
}

/// `name(argument, argument)`, or a bare `name`.
///
/// # Errors
/// When a parenthesis is missing.
pub fn call(text: &str) -> Result<(&str, Vec<&str>), String> {
    let text = text.trim();
    let Some((name, rest)) = text.split_once('(') else {
        return Ok((text, Vec::new()));
    };
    let inside = rest.strip_suffix(')');
    let inside = inside.ok_or_else(|| format!("{text:?} lacks its closing parenthesis"))?;
    Ok((name.trim(), inside.split(',').map(str::trim).collect()))
}

fn scaled(text: &str, units: &[(&str, f64)], expected: &str) -> Result<u64, String> {
    let wrong = || format!("must be {expected}, not {text:?}");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let number: f64 = number.replace('_', "").parse().map_err(|_| wrong())?;
    let unit = unit.trim();
    let scale = units.iter().find(|(name, _)| *name == unit);
    let value = number * scale.ok_or_else(wrong)?.1;
    if value.is_finite() && value < 9e18 {
        Ok(value.round() as u64)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_they_are_spoken() {
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1.5 MB"), Ok(1_500_000));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(rate("50k/s"), Ok(50_000.0));
        assert_eq!(call("zipf(10k, 1.1)"), Ok(("zipf", vec!["10k", "1.1"])));
    }

    #[test]
    fn a_quantity_without_a_needed_unit_is_refused_with_an_example() {
        let refused = time("30").expect_err("30 of what?");
        assert!(refused.contains("30s"), "{refused}");
        assert!(bytes("1 parsec").is_err());
        assert!(rate("0/s").is_err());
        assert!(share("1.5").is_err());
        assert!(call("zipf(10k").is_err());
    }
}
