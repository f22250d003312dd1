//! Prints settings as TOML that can be read back, except for secrets.

use std::fmt::Write;

use toml::{Table, Value};

use super::secrets::{HIDDEN, is_secret, without_password};
use super::tables::KeyPath;
use super::values::ConfigValues;

impl ConfigValues {
    /// Returns the values as TOML. Secrets are replaced by `<hidden>`. A value that is not a default
    /// has a comment with the layer that set it.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = String::new();
        self.print_table(&self.table, &mut Vec::new(), &mut text);
        text
    }

    fn print_table(&self, table: &Table, path: &mut KeyPath, text: &mut String) {
        for (key, value) in table.iter().filter(|(_, value)| !value.is_table()) {
            path.push(key.clone());
            let shown = display_value(path, value);
            let _ = write!(text, "{} = {shown}", quoted(key));
            if let Some(layer) = self.origins.get(path) {
                // Escapes line breaks and control characters: a layer's name may have a path in it, and a TOML
                // comment ends with its line.
                let _ = write!(text, "  # {}", layer.to_string().escape_debug());
            }
            text.push('\n');
            path.pop();
        }
        for (key, value) in table {
            if let Value::Table(inner) = value {
                path.push(key.clone());
                let has_own = inner.is_empty() || inner.values().any(|value| !value.is_table());
                if has_own {
                    let name: Vec<String> = path.iter().map(|part| quoted(part)).collect();
                    let _ = writeln!(text, "\n[{}]", name.join("."));
                }
                self.print_table(inner, path, text);
                path.pop();
            }
        }
    }
}

fn display_value(path: &[String], value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        _ if is_secret(path) => format!("\"{HIDDEN}\""),
        Value::String(text) => Value::String(without_password(path, text).into()).to_string(),
        Value::Array(values) => {
            let shown: Vec<String> = values
                .iter()
                .map(|value| display_value(path, value))
                .collect();
            format!("[{}]", shown.join(", "))
        }
        other => other.to_string(),
    }
}

fn quoted(key: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if !key.is_empty() && key.chars().all(is_bare) {
        key.to_owned()
    } else {
        Value::String(key.to_owned()).to_string()
    }
}
