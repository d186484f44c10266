//! Bytes of records as text: in JSON, and on a terminal. Knows nothing of where they come from.

use std::fmt::Write;

use serde_json::{Value, json};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// UTF-8 as a string, other bytes as `{"base64": "..."}`, none as null: nothing is lost, and what
/// is text can be read.
pub fn json_bytes(bytes: Option<&[u8]>) -> Value {
    match bytes.map(std::str::from_utf8) {
        None => Value::Null,
        Some(Ok(text)) => Value::from(text),
        Some(Err(_)) => json!({ "base64": base64(bytes.unwrap_or_default()) }),
    }
}

/// On one line and without the power to move a cursor: quoted, control characters and bytes that
/// are no UTF-8 escaped; `null` for none.
pub fn quoted(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else {
        return "null".to_owned();
    };
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                letter if letter.is_control() => out.extend(letter.escape_default()),
                letter => out.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

/// Base64 with padding (RFC 4648).
pub fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 0b11_1111;
            let used = digit <= chunk.len();
            out.push(if used {
                char::from(DIGITS[value as usize])
            } else {
                '='
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let encoded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let encoded = encoded.map(|text| base64(text.as_bytes()));
        let wanted = [
            "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy",
        ];
        assert_eq!(encoded, wanted);
    }

    #[test]
    fn null_empty_text_and_bytes_stay_apart() {
        assert_eq!(json_bytes(None), Value::Null);
        assert_eq!(json_bytes(Some(b"")), Value::from(""));
        assert_eq!(json_bytes(Some(&[0xff])), json!({"base64": "/w=="}));
        assert_eq!(quoted(None), "null");
        assert_eq!(quoted(Some(b"a\x1b[2J\n\"\xff")), r#""a\u{1b}[2J\n\"\xff""#);
    }
}
