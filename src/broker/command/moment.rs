//! Moments as people write them: milliseconds since 1970, or RFC 3339. Knows no clock.

const EXPECTED: &str = "expected milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z";

/// Reads a moment, in milliseconds since 1970.
///
/// # Errors
/// When it is neither, or no such day exists.
pub fn parse(text: &str) -> Result<i64, String> {
    if let Ok(ms) = text.parse::<i64>() {
        return Some(ms).filter(|ms| *ms >= 0).ok_or(EXPECTED.into());
    }
    rfc3339(text).ok_or_else(|| format!("{EXPECTED}; got \"{text}\""))
}

/// `YYYY-MM-DDThh:mm[:ss[.fraction]]` with `Z` or `+hh:mm`.
fn rfc3339(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut date = date.splitn(3, '-');
    let (year, month, day) = (
        number(date.next()?, 4)?,
        number(date.next()?, 2)?,
        number(date.next()?, 2)?,
    );
    let (time, offset_minutes) = match rest.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => {
            let at = rest.rfind(['+', '-'])?;
            let (hours, minutes) = rest[at + 1..].split_once(':')?;
            let minutes = number(hours, 2)? * 60 + number(minutes, 2)?;
            let sign = if rest[at..].starts_with('-') { -1 } else { 1 };
            (&rest[..at], sign * minutes)
        }
    };
    let mut time = time.splitn(3, ':');
    let (hour, minute) = (number(time.next()?, 2)?, number(time.next()?, 2)?);
    let (second, ms) = seconds(time.next().unwrap_or("00"))?;
    let sound = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let days = days_since_1970(year, month, day);
    let minutes = (days * 24 + hour) * 60 + minute - offset_minutes;
    let moment = (minutes * 60 + second) * 1_000 + ms;
    (sound && moment >= 0).then_some(moment)
}

/// Seconds and milliseconds; finer parts are cut off.
fn seconds(text: &str) -> Option<(i64, i64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = format!("{fraction:0<3}");
    let ms = fraction.get(..3).filter(|_| digits)?;
    Some((number(whole, 2)?, ms.parse().ok()?))
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let sound = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| sound)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of the Gregorian calendar; negative before 1970.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // All leap days before this year, less those before 1970.
    let leaps = |year: i64| (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400;
    let of_years = (year - 1970) * 365 + leaps(year) - leaps(1970);
    let of_months: i64 = (1..month).map(|month| days_in(year, month)).sum();
    of_years + of_months + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_in_every_spelling() {
        let ms = 1_767_225_600_000;
        for text in [
            "1767225600000",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00Z",
            "2026-01-01 00:00:00.000Z",
            "2026-01-01T01:30:00+01:30",
            "2025-12-31T19:00:00-05:00",
        ] {
            assert_eq!(parse(text), Ok(ms), "{text}");
        }
        assert_eq!(parse("2026-01-01T00:00:00.0429Z"), Ok(ms + 42));
    }

    #[test]
    fn leap_days_are_counted() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Ok(0));
        assert_eq!(parse("2000-03-01T00:00:00Z"), Ok(951_868_800_000));
        assert_eq!(parse("2024-02-29T00:00:00Z"), Ok(1_709_164_800_000));
        assert_eq!(parse("2100-03-01T00:00:00Z"), Ok(4_107_542_400_000));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "-1",
            "now",
            "2026-13-01T00:00Z",
            "2026-02-29T00:00Z",
            "2026-01-01T24:00Z",
            "2026-01-01",
            "2026-01-01T00:00",
            "2026-1-01T00:00Z",
            "2026-01-01T00:00:+1Z",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
