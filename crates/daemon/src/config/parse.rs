//! Parses TOML. Errors do not quote the parsed text, which may contain secrets.

/// Parses a TOML text.
///
/// # Errors
/// The text is not TOML. The message names the line, the key if there is any, and the expected syntax. It does
/// not quote the line, which may contain a secret.
pub fn parse_toml(text: &str) -> Result<toml::Table, String> {
    text.parse().map_err(|error| describe(text, &error))
}

fn describe(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim();
    let Some(span) = error.span() else {
        return format!("not TOML: {message}");
    };
    let before = text.get(..span.start).unwrap_or(text);
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default();
    let key = match line.split_once('=') {
        Some((key, _)) if is_key(key.trim()) => format!(" ({})", key.trim()),
        _ => String::new(),
    };
    let advice = advice(line);
    format!("line {number}{key} is not TOML: {message}{advice}")
}

fn is_key(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    !text.is_empty() && text.chars().all(is_plain)
}

/// Advice for syntax that other formats allow and TOML does not.
fn advice(line: &str) -> &'static str {
    let value = line.split_once('=').map_or("", |(_, value)| value.trim());
    let is_number = value.starts_with(|letter: char| letter.is_ascii_digit());
    if is_number && value.contains(" * ") {
        "; write the result of the multiplication, as one number, and comments behind #"
    } else if is_number && value.contains("//") {
        "; comments begin with #"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_names_line_and_key_without_the_value() {
        let said = parse_toml("a = 1\npassword = \"hunter2\nb = 2\n").unwrap_err();
        assert!(said.starts_with("line 2 (password) is not TOML"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
        let said = parse_toml("hunter2").unwrap_err();
        assert!(said.starts_with("line 1 is not TOML"), "{said}");
    }

    #[test]
    fn a_product_with_a_foreign_comment_gets_advice() {
        let said = parse_toml("TTLSecond = 24 * 60 * 60 // 1 day\n").unwrap_err();
        assert!(said.starts_with("line 1 (TTLSecond) is not TOML"), "{said}");
        assert!(said.contains("as one number"), "{said}");
        let said = parse_toml("TTLSecond = 86400 // 1 day\n").unwrap_err();
        assert!(said.ends_with("comments begin with #"), "{said}");
    }

    #[test]
    fn a_key_that_is_there_twice_is_named() {
        let said = parse_toml("a = 1\na = 2\n").unwrap_err();
        assert!(said.starts_with("line 2 (a)"), "{said}");
    }
}
