use super::*;

const ID: &str = "01KAJ0000000000000000000AB";

fn code<T: FromStr<Err = InvalidValue> + fmt::Debug>(text: &str) -> ProblemCode {
    text.parse::<T>().unwrap_err().code
}

#[test]
fn names_are_letters_digits_dash_and_underscore() {
    for name in ["a", "-", "_a-Z09", &"x".repeat(NAME_BYTES_MAX)] {
        assert_eq!(name.parse::<QueueName>().unwrap().as_str(), name);
        assert_eq!(name.parse::<Namespace>().unwrap().to_string(), name);
        assert_eq!(Namespace::try_from(name), Ok(name.parse().unwrap()));
        assert_eq!(String::from(name.parse::<PoolText>().unwrap()), name);
    }
    for name in [
        "",
        " ",
        "a.b",
        "a/b",
        "ü",
        "a\0",
        "*",
        &"x".repeat(NAME_BYTES_MAX + 1),
    ] {
        assert_eq!(
            code::<QueueName>(name),
            ProblemCode::InvalidName,
            "{name:?}"
        );
        assert_eq!(
            code::<Namespace>(name),
            ProblemCode::InvalidName,
            "{name:?}"
        );
        assert_eq!(
            code::<PoolText>(name),
            ProblemCode::InvalidParameter,
            "{name:?}"
        );
    }
    let error = "a b".parse::<QueueName>().unwrap_err();
    let expected = "the name of a queue must be 1 to 255 bytes of letters, digits, - and _; ' ' (U+0020) is not allowed";
    assert_eq!(error.detail, expected);
}

#[test]
fn keys_are_counted_in_bytes() {
    let umlauts = "ü".repeat(127);
    for key in ["order-17", "a/b c", "key:x", &umlauts, &"k".repeat(255)] {
        assert_eq!(key.parse::<JobKey>().unwrap().as_str(), key);
    }
    for key in [
        "",
        "a\nb",
        "a\0",
        "\u{7f}",
        "\u{85}",
        &format!("{umlauts}ab"),
        &"k".repeat(256),
    ] {
        assert_eq!(
            code::<JobKey>(key),
            ProblemCode::InvalidParameter,
            "{key:?}"
        );
    }
}

#[test]
fn ids_are_26_characters_of_upper_case_crockford_base_32() {
    for id in [
        ID,
        "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "00000000000000000000000000",
    ] {
        assert_eq!(id.parse::<JobId>().unwrap().to_string(), id);
    }
    let lower = ID.to_lowercase();
    for id in [
        "",
        "x",
        &ID[1..],
        &format!("{ID}0"),
        &lower,
        "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "01KAJ0000000000000000000IL",
    ] {
        assert_eq!(code::<JobId>(id), ProblemCode::InvalidParameter, "{id:?}");
    }
}

#[test]
fn leases_cursors_and_idempotency_keys_are_visible_ascii() {
    let longest = "l".repeat(LEASE_BYTES_MAX);
    assert!(longest.parse::<LeaseText>().is_ok());
    assert!(format!("{longest}l").parse::<LeaseText>().is_err());
    assert!("c".repeat(CURSOR_BYTES_MAX).parse::<CursorText>().is_ok());
    assert!(
        "i".repeat(IDEMPOTENCY_KEY_BYTES_MAX)
            .parse::<IdempotencyKey>()
            .is_ok()
    );
    assert!(
        "i".repeat(IDEMPOTENCY_KEY_BYTES_MAX + 1)
            .parse::<IdempotencyKey>()
            .is_err()
    );
    for text in ["", "a b", "a\n", "ü"] {
        assert!(text.parse::<LeaseText>().is_err(), "{text:?}");
        assert!(text.parse::<CursorText>().is_err(), "{text:?}");
        assert!(text.parse::<IdempotencyKey>().is_err(), "{text:?}");
    }
}

#[test]
fn json_is_checked_too() {
    let key: JobKey = serde_json::from_str("\"order-17\"").unwrap();
    assert_eq!(serde_json::to_string(&key).unwrap(), "\"order-17\"");
    let error = serde_json::from_str::<QueueName>("\"a b\"").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("invalid_name: the name of a queue must be")
    );
    assert!(serde_json::from_str::<JobKey>("17").is_err());
}
