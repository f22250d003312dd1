//! The texts of keys. Some need escapes, and some cannot be in a path.

/// Returns the text of the key with this number.
pub(super) fn key_text(key: u32) -> String {
    match key % 4 {
        0 => format!("order/{key}"),
        1 => format!("bestellung für {key}"),
        _ => format!("order-{key}"),
    }
}

/// Returns the number of the key with this text.
pub(super) fn key_number(text: &str) -> Option<u32> {
    let digits = text.rsplit(['/', ' ', '-']).next()?;
    let key = digits.parse().ok()?;
    (key_text(key) == text).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        for key in 0..20 {
            assert_eq!(key_number(&key_text(key)), Some(key));
        }
        assert_eq!(key_number("order-x"), None);
    }
}
