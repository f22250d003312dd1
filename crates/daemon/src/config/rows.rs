//! The rows of a defaults file. A setting is described in one line of it: its default, which gives the type, and a
//! comment behind it with the range of values and whether SIGHUP reloads it.
//!
//! ```text
//! threads = 1  # 1 to 1024
//! tries = 1  # 1 to 65535, reload
//! #database = 0  # 0 to 65535      no default: the value is an example
//! [accounts]  # reload             every key of the table
//! #NAME = "password"               NAME stands for any name
//! #[pool.NAME]  # as pool.default  the keys of another table
//! ```

use std::time::Duration;

use toml_edit::{Decor, DocumentMut, Item, Table};

use super::tables::{KeyPath, parts};

/// The range of values that a key accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A whole number within these bounds, both inclusive.
    Number(i64, i64),
    /// A duration in whole milliseconds within these bounds, both inclusive.
    Duration(Duration, Duration),
}

/// The contents of the comments behind values and tables.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) bounds: Vec<(KeyPath, Bound)>,
    pub(super) reloadable: Vec<KeyPath>,
    /// Tables with the keys of another table: the table, and the other one.
    pub(super) copies: Vec<(KeyPath, KeyPath)>,
}

/// Returns a defaults file with the settings that have no default: lines that begin with `#` and no space.
pub(super) fn with_examples(defaults: &str) -> String {
    let lines = defaults.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting,
        _ => line,
    });
    lines.collect::<Vec<&str>>().join("\n")
}

impl Rows {
    /// Reads the text that [`with_examples`] returns.
    ///
    /// # Errors
    /// The text is not TOML, or the comment behind a value or a table has another form.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let parsed = text.parse::<DocumentMut>();
        let document = parsed.map_err(|error| error.to_string())?;
        let mut rows = Self::default();
        rows.read_table(&document, &mut Vec::new())?;
        Ok(rows)
    }

    fn read_table(&mut self, table: &Table, path: &mut KeyPath) -> Result<(), String> {
        for (key, item) in table {
            path.push(key.to_owned());
            match item {
                Item::Table(inner) => {
                    self.read_comment(inner.decor(), item, path)?;
                    self.read_table(inner, path)?;
                }
                Item::Value(value) => self.read_comment(value.decor(), item, path)?,
                Item::None | Item::ArrayOfTables(_) => {}
            }
            path.pop();
        }
        Ok(())
    }

    fn read_comment(&mut self, decor: &Decor, item: &Item, path: &KeyPath) -> Result<(), String> {
        let suffix = decor.suffix().and_then(|suffix| suffix.as_str());
        let comment = suffix.unwrap_or_default().trim();
        if comment.is_empty() {
            return Ok(());
        }
        let words = comment.trim_start_matches('#').split(',').map(str::trim);
        for word in words {
            if word == "reload" {
                self.reloadable.push(path.clone());
            } else if let Some(original) = word.strip_prefix("as ") {
                self.copies.push((path.clone(), parts(original)));
            } else if let Some(bound) = range(word, item) {
                self.bounds.push((path.clone(), bound));
            } else {
                let key = path.join(".");
                return Err(format!(
                    "{key}: {word:?} is neither a range of its values nor \"reload\" nor \"as TABLE\""
                ));
            }
        }
        Ok(())
    }
}

/// Reads `LEAST to MOST`, in the type of the value.
fn range(words: &str, item: &Item) -> Option<Bound> {
    let (least, most) = words.split_once(" to ")?;
    if item.is_integer() {
        let number = |word: &str| word.parse().ok();
        return Some(Bound::Number(number(least)?, number(most)?));
    }
    let duration = |word| tidegate_core::duration::parse(word).ok();
    duration(item.as_str()?)?;
    Some(Bound::Duration(duration(least)?, duration(most)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(defaults: &str) -> Result<Rows, String> {
        Rows::read(&with_examples(defaults))
    }

    #[test]
    fn a_comment_behind_a_value_or_a_table_is_read() {
        let rows = read(
            "# Says what a is.\na = 1  # 1 to 10\nb = \"2s\"  # 0s to 1d, reload\nc = true\n#d = 0  # 2 to 3\n\
             [t]  # reload\n#NAME = \"\"\n\n#[u.NAME]  # as t\n",
        )
        .unwrap();
        let day = Duration::from_secs(24 * 3600);
        let bounds = [
            ("a", Bound::Number(1, 10)),
            ("b", Bound::Duration(Duration::ZERO, day)),
            ("d", Bound::Number(2, 3)),
        ];
        assert_eq!(rows.bounds, bounds.map(|(key, bound)| (parts(key), bound)));
        assert_eq!(rows.reloadable, ["b", "t"].map(parts));
        assert_eq!(rows.copies, [(parts("u.NAME"), parts("t"))]);
    }

    #[test]
    fn a_comment_of_another_form_is_an_error() {
        for wrong in [
            "a = 1  # at most 10",
            "a = 1  # 1s to 10s",
            "a = \"1s\"  # 1 to 10",
            "a = true  # 0 to 1",
            "a = \"\"  # 0s to 1s",
            "[a]  # 1 to 10",
        ] {
            let problem = read(wrong).unwrap_err();
            assert!(problem.starts_with("a: "), "{wrong}: {problem}");
        }
    }
}
