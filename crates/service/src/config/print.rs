//! Settings as a text that can be read back.

use std::fmt::Write;

use toml::{Table, Value};

use super::secrets::{HIDDEN, is_secret, without_password};
use super::values::Values;

impl Values {
    /// The values as TOML. Secrets are left out; behind a value that is not a default is where it comes
    /// from.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = String::new();
        self.print_table(&self.table, &mut Vec::new(), &mut text);
        text
    }

    fn print_table<'a>(&self, table: &'a Table, path: &mut Vec<&'a str>, text: &mut String) {
        for (key, value) in table.iter().filter(|(_, value)| !value.is_table()) {
            path.push(key);
            let shown = shown(path, value);
            let _ = write!(text, "{} = {shown}", quoted(key));
            let origin = path
                .iter()
                .map(|part| (*part).to_owned())
                .collect::<Vec<_>>();
            if let Some(layer) = self.origins.get(&origin) {
                let _ = write!(text, "  # {}", one_line(&layer.to_string()));
            }
            text.push('\n');
            path.pop();
        }
        for (key, value) in table {
            if let Value::Table(inner) = value {
                path.push(key);
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

fn shown(path: &[&str], value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        _ if is_secret(path) => format!("\"{HIDDEN}\""),
        Value::String(text) => Value::String(without_password(path, text).into()).to_string(),
        Value::Array(values) => {
            let shown: Vec<String> = values.iter().map(|value| shown(path, value)).collect();
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

/// A path may have any character in it; a comment ends with its line.
fn one_line(text: &str) -> String {
    text.escape_debug().to_string()
}
