//! JSON that the parsers of all common languages read.
//!
//! Payloads of many jobs are in one answer. A payload that a parser refuses would take the others with it: their leases
//! would end unused, until all of them are dead.

/// The most levels of arrays and objects in a payload. Parsers allow at least 100 by default (Ruby: 100, serde_json:
/// 128, PHP: 512), and an answer adds a few levels of its own.
pub(crate) const JSON_DEPTH_MAX: usize = 64;

/// The most characters of a number. Jackson reads 1000 by default, Python 4300 digits of an integer.
const NUMBER_LENGTH_MAX: usize = 1000;

/// Checks valid JSON.
///
/// # Errors
/// Parsers refuse it, and why.
pub(crate) fn check_portable(json: &[u8]) -> Result<(), String> {
    let (mut depth, mut at) = (0, 0);
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => at = end_of_string(json, at)?,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b'-' | b'0'..=b'9' => at = end_of_number(json, at - 1)?,
            _ => {}
        }
        if depth > JSON_DEPTH_MAX {
            return Err(format!(
                "it has more than {JSON_DEPTH_MAX} levels of arrays and objects"
            ));
        }
    }
    Ok(())
}

/// The place behind the number that begins at `from`.
fn end_of_number(json: &[u8], from: usize) -> Result<usize, String> {
    let is_part = |byte: &&u8| matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9');
    let length = json[from..].iter().take_while(is_part).count();
    if length > NUMBER_LENGTH_MAX {
        return Err(format!(
            "it has a number with more than {NUMBER_LENGTH_MAX} characters"
        ));
    }
    let number = std::str::from_utf8(&json[from..from + length]).unwrap_or_default();
    if number.parse::<f64>().is_ok_and(f64::is_infinite) {
        return Err(
            "it has a number beyond 1.8e308, which a 64-bit float does not hold".to_owned(),
        );
    }
    Ok(from + length)
}

/// The place behind the string that begins at `at`.
fn end_of_string(json: &[u8], mut at: usize) -> Result<usize, String> {
    let mut follows_high = false;
    while let Some(byte) = json.get(at) {
        let unit = (*byte == b'\\').then(|| code_unit(&json[at..])).flatten();
        let is_low = unit.is_some_and(|unit| (0xDC00..0xE000).contains(&unit));
        if is_low != follows_high {
            return Err("it has half of a surrogate pair (`\\ud800` to `\\udfff`)".to_owned());
        }
        follows_high = unit.is_some_and(|unit| (0xD800..0xDC00).contains(&unit));
        at += match (byte, unit) {
            (b'"', _) => return Ok(at + 1),
            (b'\\', Some(_)) => 6,
            (b'\\', None) => 2,
            _ => 1,
        };
    }
    Ok(at)
}

/// The code unit of UTF-16 that an escape such as `\u00fc` stands for.
fn code_unit(escape: &[u8]) -> Option<u16> {
    let digits = escape.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parsers_of_all_languages_read_is_accepted() {
        let deepest = "[".repeat(JSON_DEPTH_MAX) + &"]".repeat(JSON_DEPTH_MAX);
        for json in [
            "1",
            "[-1.5e308,1e-400,12345678901234567890123]",
            &format!("0.{}", "1".repeat(NUMBER_LENGTH_MAX - 2)),
            r#""1e400 [[{{""#,
            r#""\\ud800""#,
            r#""\ud83d\ude00\u00fc\"\\""#,
            r#"{"a":[1,{"b":"\n"}],"c":[[],[]]}"#,
            &deepest,
            &format!("[{}]", "[],".repeat(1000) + "1"),
        ] {
            assert_eq!(check_portable(json.as_bytes()), Ok(()), "{json}");
            assert!(serde_json::from_str::<serde_json::Value>(json).is_ok());
        }
    }

    #[test]
    fn what_some_parsers_refuse_is_refused() {
        let too_deep = "[".repeat(JSON_DEPTH_MAX + 1) + &"]".repeat(JSON_DEPTH_MAX + 1);
        let error = check_portable(too_deep.as_bytes()).unwrap_err();
        assert!(error.contains("64 levels"), "{error}");
        for (json, reason) in [
            ("[1e400]", "beyond"),
            (r#"{"a":-1e400}"#, "beyond"),
            (&"1".repeat(400), "beyond"),
            (&"1".repeat(5000), "1000 characters"),
            (
                &format!("0.{}", "1".repeat(NUMBER_LENGTH_MAX)),
                "1000 characters",
            ),
        ] {
            let error = check_portable(json.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{json}: {error}");
        }
        for json in [
            r#""\ud800""#,
            r#""\ud800x""#,
            r#""\ud800\n""#,
            r#""\ud800\ud800""#,
            r#""\udc00""#,
            r#"{"\uDBFF":1}"#,
        ] {
            let error = check_portable(json.as_bytes()).unwrap_err();
            assert!(error.contains("surrogate"), "{json}: {error}");
        }
    }
}
