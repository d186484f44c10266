//! From where to where a partition is read: kcat's `-o`, and what it means once a partition's
//! offsets are known. Pure: knows nothing of how offsets are asked for.

use super::super::moment;

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first record.
    Beginning,
    /// Behind the last record.
    End,
    /// Where a group has committed that it was.
    Stored,
    /// At this offset.
    At(i64),
    /// So many records before the end.
    Last(i64),
    /// At the first record that is no older than this.
    Time(i64),
}

/// One `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Where to begin.
    Start(Start),
    /// `e@TIME`: before the first record that is no older than this.
    Until(i64),
}

/// Reads one `-o`.
///
/// # Errors
/// When it is none.
pub fn parse(text: &str) -> Result<Bound, String> {
    if let Some(time) = text.strip_prefix("s@") {
        return moment::parse(time).map(|time| Bound::Start(Start::Time(time)));
    }
    if let Some(time) = text.strip_prefix("e@") {
        return moment::parse(time).map(Bound::Until);
    }
    let start = match text {
        "beginning" | "earliest" | "smallest" => Start::Beginning,
        "end" | "latest" | "largest" => Start::End,
        "stored" => Start::Stored,
        text => match text.parse::<i64>() {
            Ok(offset) if offset >= 0 => Start::At(offset),
            Ok(count) => Start::Last(count.saturating_neg()),
            Err(_) => {
                return Err(format!(
                    "expected beginning, end, stored, N, -N, s@TIME or e@TIME, got \"{text}\""
                ));
            }
        },
    };
    Ok(Bound::Start(start))
}

/// All that says which records are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Where to begin; by default behind the last record, as Kafka's consumers do.
    pub start: Option<Start>,
    /// `e@TIME`.
    pub until: Option<i64>,
    /// Read up to this offset, without it.
    pub to: Option<i64>,
    /// Read up to the end as it is now.
    pub exit_at_end: bool,
}

impl Bounds {
    /// From what was given.
    ///
    /// # Errors
    /// When two say where to begin, or two where to end.
    pub fn new(given: &[Bound], to: Option<i64>, exit_at_end: bool) -> Result<Self, String> {
        let mut bounds = Self {
            to,
            exit_at_end,
            ..Self::default()
        };
        for bound in given {
            let twice = match bound {
                Bound::Start(start) => bounds.start.replace(*start).is_some(),
                Bound::Until(time) => bounds.until.replace(*time).is_some(),
            };
            if twice {
                return Err("two -o say the same thing".into());
            }
        }
        Ok(bounds)
    }
}

/// What a broker says of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its first offset.
    pub earliest: i64,
    /// The offset of its next record.
    pub latest: i64,
    /// The offset at the time of [`Start::Time`]; none when all records are older.
    pub at_start: Option<i64>,
    /// The offset at the time of [`Bounds::until`]; none when all records are older.
    pub at_until: Option<i64>,
}

/// The offsets of a partition that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub from: i64,
    /// One past the last; none for what comes, too.
    pub to: Option<i64>,
}

impl Range {
    /// Whether a reader that stands here has read all.
    pub fn is_done(self, position: i64) -> bool {
        self.to.is_some_and(|to| position >= to)
    }
}

impl Bounds {
    /// What they mean for a partition.
    ///
    /// # Errors
    /// When it is to be read from an offset that it does not have.
    pub fn range(&self, known: &Known) -> Result<Range, String> {
        let (earliest, latest) = (known.earliest, known.latest);
        let from = match self.start.unwrap_or(Start::End) {
            Start::Beginning => earliest,
            // Without a group nothing is stored.
            Start::End | Start::Stored => latest,
            Start::Last(count) => latest.saturating_sub(count).max(earliest),
            Start::Time(_) => known.at_start.unwrap_or(latest),
            Start::At(offset) if (earliest..=latest).contains(&offset) => offset,
            Start::At(offset) => {
                return Err(format!(
                    "offset {offset} is not there: it has {earliest} to {latest}"
                ));
            }
        };
        // Later records may be older still: what is there now is all that a time can bound.
        let until = self.until.map(|_| known.at_until.unwrap_or(latest));
        let end = self.exit_at_end.then_some(latest);
        let to = [self.to, until, end].into_iter().flatten().min();
        Ok(Range { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known = Known {
        earliest: 10,
        latest: 50,
        at_start: Some(30),
        at_until: Some(40),
    };

    fn range(
        given: &[&str],
        to: Option<i64>,
        exit_at_end: bool,
    ) -> Result<(i64, Option<i64>), String> {
        let bounds: Result<Vec<Bound>, String> = given.iter().map(|text| parse(text)).collect();
        let range = Bounds::new(&bounds?, to, exit_at_end)?.range(&KNOWN)?;
        Ok((range.from, range.to))
    }

    #[test]
    fn kcats_offsets_mean_what_they_mean_there() {
        for (given, from) in [
            ("beginning", 10),
            ("end", 50),
            ("25", 25),
            ("10", 10),
            ("50", 50),
            ("-5", 45),
            ("-500", 10),
            ("s@1767225600000", 30),
        ] {
            assert_eq!(range(&[given], None, false), Ok((from, None)), "{given}");
        }
        assert_eq!(range(&[], None, false), Ok((50, None)));
        assert_eq!(range(&["s@1", "e@2"], None, false), Ok((30, Some(40))));
    }

    #[test]
    fn the_nearest_of_all_ends_counts() {
        assert_eq!(range(&["10"], Some(20), true), Ok((10, Some(20))));
        assert_eq!(range(&["10"], Some(90), true), Ok((10, Some(50))));
        assert_eq!(range(&["10", "e@2"], None, true), Ok((10, Some(40))));
    }

    #[test]
    fn a_time_that_no_record_has_reached_is_the_present_end() {
        let known = Known {
            at_start: None,
            at_until: None,
            ..KNOWN
        };
        let bounds = Bounds::new(
            &[Bound::Start(Start::Time(1)), Bound::Until(2)],
            None,
            false,
        );
        let range = bounds.and_then(|it| it.range(&known)).expect("a range");
        assert_eq!(
            range,
            Range {
                from: 50,
                to: Some(50)
            }
        );
        assert!(range.is_done(50) && !range.is_done(49));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        assert!(range(&["9"], None, false).is_err(), "trimmed away");
        assert!(range(&["51"], None, false).is_err(), "not written yet");
        assert!(range(&["1", "2"], None, false).is_err(), "two starts");
        assert!(parse("middle").is_err());
    }
}
