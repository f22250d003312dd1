//! The error of a failed attempt.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::ERROR_BYTES_MAX;

const MARK: &str = "…";

/// The text of a worker about a failed attempt, for people.
///
/// A text of more than [`ERROR_BYTES_MAX`] bytes is truncated and ends in `…`: a long stack trace must not make the
/// report of the failure fail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct ErrorText(String);

impl ErrorText {
    /// The text, at most [`ERROR_BYTES_MAX`] bytes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ErrorText {
    fn from(mut text: String) -> Self {
        if text.len() > ERROR_BYTES_MAX {
            let mut end = ERROR_BYTES_MAX - MARK.len();
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str(MARK);
        }
        Self(text)
    }
}

impl From<&str> for ErrorText {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for ErrorText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_truncated_between_characters() {
        let longest = "e".repeat(ERROR_BYTES_MAX);
        assert_eq!(ErrorText::from(longest.as_str()).as_str(), longest);
        for text in [longest + "e", "ü".repeat(600), "😀".repeat(300)] {
            let kept = ErrorText::from(text.as_str());
            let begin = kept.as_str().strip_suffix(MARK).unwrap();
            assert!(text.starts_with(begin));
            assert!((ERROR_BYTES_MAX - 6..=ERROR_BYTES_MAX).contains(&kept.as_str().len()));
        }
        let read: ErrorText = serde_json::from_str("\"smtp: 550\"").unwrap();
        assert_eq!(read.to_string(), "smtp: 550");
    }
}
