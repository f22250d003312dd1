//! Lists of texts, which one text with commas can be, too: an environment variable has no lists.

use serde::{Deserialize, Serialize};

/// A list of texts, or one text with commas. It is written as a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "TextListInput")]
pub struct TextList(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a list of texts, or one text with commas")]
enum TextListInput {
    Commas(String),
    List(Vec<String>),
}

impl From<TextListInput> for TextList {
    fn from(given: TextListInput) -> Self {
        match given {
            TextListInput::Commas(text) => {
                let texts = text.split(',').map(str::trim);
                Self(
                    texts
                        .filter(|text| !text.is_empty())
                        .map(ToOwned::to_owned)
                        .collect(),
                )
            }
            TextListInput::List(texts) => Self(texts),
        }
    }
}

impl TextList {
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The texts.
    pub fn texts(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}
