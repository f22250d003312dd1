//! Types and bounds, and the errors for other values.

use super::*;

const DEFAULTS: &str = "\
flag = false
number = 5  # 1 to 10
wait = \"1s\"  # 1ms to 1h
name = \"\"
list = []
[pool.default]
url = \"\"
size = 3  # 0 to 9
#[pool.NAME]  # as pool.default
#[names]
#NAME = \"\"
";

fn schema() -> Schema {
    Schema::new(DEFAULTS).unwrap()
}

#[track_caller]
fn error_of(text: &str) -> String {
    let mut layer = parse_toml(text).unwrap();
    schema().check(&mut layer, false).unwrap_err()
}

#[test]
fn a_value_has_the_type_of_the_default() {
    for (key, fine) in [
        ("flag", &["true", "false"][..]),
        ("number", &["1", "10"]),
        ("wait", &["\"1ms\"", "\"1h\"", "\"1.5s\"", "\"PT5S\""]),
        ("name", &["\"\"", "\"a\""]),
        ("list", &["[]", "[\"a\"]", "\"a,b\""]),
        ("names.any", &["\"a\""]),
        ("pool.other.size", &["0", "9"]),
    ] {
        let all = [
            "true",
            "false",
            "1",
            "10",
            "0",
            "9",
            "-1",
            "11",
            "1.5",
            "nan",
            "inf",
            "\"\"",
            "\"a\"",
            "\"a,b\"",
            "\"1ms\"",
            "\"1h\"",
            "\"1.5s\"",
            "\"PT5S\"",
            "\"5\"",
            "\"0s\"",
            "\"1500us\"",
            "\"2h\"",
            "[]",
            "[1]",
            "[\"a\"]",
            "{}",
            "{ a = 1 }",
            "1979-05-27",
        ];
        let is_text = ["name", "names.any"].contains(&key);
        for value in all {
            let mut layer = parse_toml(&format!("{key} = {value}")).unwrap();
            let checked = schema().check(&mut layer, false);
            let is_fine = fine.contains(&value)
                || (key == "list" || is_text) && value.starts_with('"')
                || key == "number" && value == "9"
                || key == "pool.other.size" && value == "1";
            assert_eq!(checked.is_ok(), is_fine, "{key} = {value}: {checked:?}");
            if let Err(message) = checked {
                assert!(message.starts_with(key), "{key} = {value}: {message}");
            }
        }
    }
}

#[test]
fn an_error_names_the_key_and_what_it_accepts() {
    assert_eq!(error_of("number = 11"), "number must be 1 to 10, not 11");
    let message = error_of("number = 1.0");
    assert_eq!(
        message,
        "number must be a whole number, 1 to 10, not a number with a fraction"
    );
    let message = error_of("wait = \"500000000000000d\"");
    assert_eq!(message, "wait must be 1ms to 1h, not \"500000000000000d\"");
    let message = error_of("wait = 5");
    assert!(message.contains("a duration in quotes"), "{message}");
    let message = error_of("wait = \"5\"");
    assert_eq!(
        message,
        "wait must be 1ms to 1h; 5 has no unit: write 5s or 5ms"
    );
    let message = error_of("flag = 1");
    assert_eq!(message, "flag must be true or false, not a whole number");
    let message = error_of("[pool.x]\nsise = 1");
    assert!(message.starts_with("unknown key pool.x.sise"), "{message}");
    assert!(message.ends_with("size, url"), "{message}");
    assert_eq!(error_of("pool = 1"), "pool must be a table: [pool]");
}

/// A URL may contain a password.
#[test]
fn a_url_is_refused_where_none_belongs_and_is_not_repeated() {
    for (text, message) in [
        ("name = \"redis://:hunter2@h\"", "name must not be a URL"),
        ("name = \"info,x://hunter2\"", "name must not be a URL"),
        ("wait = \"redis://:hunter2@h\"", "wait must not be a URL"),
        (
            "[pool.\"redis://:hunter2@h\"]\nsize = 10",
            "a key in [pool] is a URL: write its name",
        ),
        (
            "\"redis://:hunter2@h\" = 1",
            "a key in [] is a URL: write its name",
        ),
    ] {
        assert_eq!(error_of(text), message);
    }
    let mut layer = parse_toml("[pool.default]\nurl = \"redis://:hunter2@h\"").unwrap();
    schema().check(&mut layer, false).unwrap();
}

#[test]
fn an_address_is_checked_by_its_key() {
    let schema = Schema::new("listen = \"127.0.0.1:1\"").unwrap();
    for (text, is_fine) in [
        ("0.0.0.0:80", true),
        ("[::]:80", true),
        ("localhost:80", false),
        (":80", false),
        ("127.0.0.1", false),
    ] {
        let mut layer = parse_toml(&format!("listen = \"{text}\"")).unwrap();
        match schema.check(&mut layer, false) {
            Ok(()) => assert!(is_fine, "{text}"),
            Err(message) => {
                assert!(!is_fine, "{message}");
                let expected = format!(
                    "listen must be an IP address and a port such as \"127.0.0.1:1\", not {text:?}"
                );
                assert_eq!(message, expected);
            }
        }
    }
}

#[test]
fn a_text_of_the_environment_becomes_what_the_key_is() {
    let mut layer =
        parse_toml("flag = \"true\"\nnumber = \"7\"\nname = \"12345\"\nwait = \"2s\"").unwrap();
    schema().check(&mut layer, true).unwrap();
    let expected = parse_toml("flag = true\nnumber = 7\nname = \"12345\"\nwait = \"2s\"").unwrap();
    assert_eq!(layer, expected);
    for (key, text) in [("flag", "1"), ("number", "1.5"), ("number", "7 ms")] {
        let mut layer = parse_toml(&format!("{key} = \"{text}\"")).unwrap();
        assert!(schema().check(&mut layer, true).is_err(), "{key} = {text}");
    }
}

#[test]
fn a_number_or_duration_without_bounds_is_found() {
    assert_eq!(schema().gaps(), [""; 0]);
    let lines = DEFAULTS.lines();
    let without = lines.filter_map(|line| line.split("  # ").next());
    let schema = Schema::new(&without.collect::<Vec<&str>>().join("\n")).unwrap();
    assert_eq!(schema.gaps(), ["number", "pool.default.size", "wait"]);
}

#[test]
fn a_table_as_one_that_does_not_exist_is_an_error() {
    let message = Schema::new("[a]  # as b").unwrap_err();
    assert!(
        message.to_string().contains("there is no table b"),
        "{message}"
    );
}
