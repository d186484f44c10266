//! What is shown while a run goes on, and when it is over. Pure: text out, whether it may have colours is
//! told.

pub mod live;
pub mod summary;

/// Text styles of a terminal, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    /// Whether styles are used.
    pub is_on: bool,
}

impl Paint {
    /// Bold.
    pub fn strong(self, text: &str) -> String {
        self.style("1", text)
    }

    /// Faint.
    pub fn quiet(self, text: &str) -> String {
        self.style("2", text)
    }

    /// Red.
    pub fn bad(self, text: &str) -> String {
        self.style("31", text)
    }

    fn style(self, code: &str, text: &str) -> String {
        if self.is_on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A count with three digits: `950`, `20.0k`.
pub fn count_text(count: f64) -> String {
    scaled(count, 1000.0, &["", "k", "M", "G"], "")
}

/// A size with three digits: `950 B`, `19.5 MiB`.
pub fn bytes_text(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"], " ")
}

fn scaled(mut value: f64, step: f64, units: &[&str], gap: &str) -> String {
    let mut unit = 0;
    while value >= step * 0.9995 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 => 0,
        _ if value < 10.0 => 2,
        _ if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{gap}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_have_three_digits() {
        assert_eq!(count_text(950.0), "950");
        assert_eq!(count_text(19_990.0), "20.0k");
        assert_eq!(bytes_text(20_480_000.0), "19.5 MiB");
        assert_eq!(bytes_text(0.0), "0 B");
    }

    #[test]
    fn without_colours_text_is_text() {
        assert_eq!(Paint { is_on: false }.bad("x"), "x");
        assert_eq!(Paint { is_on: true }.bad("x"), "\x1b[31mx\x1b[0m");
    }
}
