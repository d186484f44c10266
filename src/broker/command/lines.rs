//! Cuts a stream of bytes into records: where one ends, and where its key ends. Knows nothing of
//! where the bytes come from or go.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What a record in text looks like.
#[derive(Clone, Debug)]
pub struct Shape {
    /// What ends a record; not empty.
    pub delimiter: Vec<u8>,
    /// What ends a key, if records have keys.
    pub key_separator: Option<Vec<u8>>,
    /// The key of records that have none of their own.
    pub key: Option<Bytes>,
    /// Nothing stands for null (a tombstone), not for a value without bytes.
    pub empty_is_null: bool,
}

impl Shape {
    /// The next record's bytes without their delimiter; `None` at the end of the stream. The last
    /// record needs no delimiter.
    ///
    /// # Errors
    /// Those of `source`.
    pub async fn next(
        &self,
        source: &mut (impl AsyncBufRead + Unpin),
    ) -> io::Result<Option<Bytes>> {
        let Some(last) = self.delimiter.last() else {
            return Ok(None);
        };
        let mut line = Vec::new();
        loop {
            let read = source.read_until(*last, &mut line).await?;
            if read == 0 {
                return Ok((!line.is_empty()).then(|| line.into()));
            }
            if line.ends_with(&self.delimiter) {
                line.truncate(line.len() - self.delimiter.len());
                return Ok(Some(line.into()));
            }
        }
    }

    /// A record's key and value. Without a separator in it, all of it is the value.
    pub fn split(&self, line: &Bytes) -> (Option<Bytes>, Option<Bytes>) {
        let separator = self.key_separator.as_deref().unwrap_or_default();
        let at = match separator {
            [] => None,
            separator => line
                .windows(separator.len())
                .position(|window| window == separator),
        };
        let (key, value) = match at {
            Some(at) => (Some(line.slice(..at)), line.slice(at + separator.len()..)),
            None => (self.key.clone(), line.clone()),
        };
        let or_null = |bytes: Bytes| (!(self.empty_is_null && bytes.is_empty())).then_some(bytes);
        (key.and_then(or_null), or_null(value))
    }
}

/// Reads bytes as people write them on a command line: `\n`, `\t`, `\r`, `\0`, `\\` and `\xHH`
/// stand for what they do in most languages.
///
/// # Errors
/// When there is nothing, or an escape that does not exist.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let escape = rest.next();
        out.push(match escape {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let digits = [rest.next(), rest.next()].map(|it| it.unwrap_or(b'?'));
                let digits = std::str::from_utf8(&digits).unwrap_or("?");
                u8::from_str_radix(digits, 16)
                    .map_err(|_| format!("\\x needs two hexadecimal digits in \"{text}\""))?
            }
            _ => {
                return Err(format!(
                    "\"{text}\" has an escape other than \\n \\t \\r \\0 \\\\ and \\xHH"
                ));
            }
        });
    }
    match out.is_empty() {
        true => Err("expected at least one byte".into()),
        false => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(delimiter: &str, separator: Option<&str>) -> Shape {
        Shape {
            delimiter: delimiter.into(),
            key_separator: separator.map(Into::into),
            key: None,
            empty_is_null: false,
        }
    }

    fn records(shape: &Shape, text: &str) -> Vec<Bytes> {
        let mut source = text.as_bytes();
        let mut records = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(async {
            while let Some(record) = shape.next(&mut source).await.expect("memory reads") {
                records.push(record);
            }
        });
        records
    }

    #[test]
    fn every_delimiter_ends_a_record_and_the_last_needs_none() {
        assert_eq!(records(&shape("\n", None), "a\n\nb"), ["a", "", "b"]);
        assert_eq!(records(&shape("\n", None), "a\n"), ["a"]);
        let longer = shape("--\n", None);
        assert_eq!(records(&longer, "a\nb--\nc-\n"), ["a\nb", "c-\n"]);
    }

    #[test]
    fn a_key_ends_at_the_first_separator() {
        let shape = shape("\n", Some("::"));
        let split = |text: &'static str| shape.split(&Bytes::from_static(text.as_bytes()));
        assert_eq!(split("k::v::w"), (Some("k".into()), Some("v::w".into())));
        assert_eq!(split("::v"), (Some("".into()), Some("v".into())));
        assert_eq!(split("k:v"), (None, Some("k:v".into())));
    }

    #[test]
    fn nothing_is_null_only_when_asked_for() {
        let mut shape = shape("\n", Some(":"));
        let line = Bytes::from_static(b"k:");
        assert_eq!(shape.split(&line), (Some("k".into()), Some("".into())));
        shape.empty_is_null = true;
        assert_eq!(shape.split(&line), (Some("k".into()), None));
    }

    #[test]
    fn escapes_are_bytes_and_wrong_ones_are_told() {
        assert_eq!(unescape(r"a\t\x00\\"), Ok(b"a\t\x00\\".to_vec()));
        for wrong in ["", r"\q", r"\x1", "\\"] {
            assert!(unescape(wrong).is_err(), "{wrong}");
        }
    }
}
