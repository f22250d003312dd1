use proptest::prelude::*;
use serde_json::{Value, json};

use std::time::Duration;

use super::*;

fn read(value: Value) -> Result<u64, String> {
    let read = serde_json::from_value::<Timestamp>(value);
    read.map(Timestamp::as_ms)
        .map_err(|error| error.to_string())
}

#[test]
fn rfc_3339_with_any_offset_is_accepted() {
    for (text, ms) in [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("2026-11-21T12:30:00Z", 1_795_264_200_000),
        ("2026-11-21t12:30:00.000z", 1_795_264_200_000),
        ("2026-11-21T13:30:00.000+01:00", 1_795_264_200_000),
        ("2026-11-21T12:30:00-00:00", 1_795_264_200_000),
        ("2026-11-21T07:00:00-05:30", 1_795_264_200_000),
        ("2026-11-21T12:30:00.5Z", 1_795_264_200_500),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("9999-12-31T23:59:59.999Z", TIME_MS_MAX),
        ("1795264200000", 1_795_264_200_000),
    ] {
        assert_eq!(text.parse(), Ok(Timestamp(ms)), "{text}");
        assert_eq!(read(json!(text)), Ok(ms), "{text}");
    }
    assert_eq!(read(json!(1_795_264_200_000_u64)), Ok(1_795_264_200_000));
    assert_eq!(read(json!(0)), Ok(0));
}

#[test]
fn what_is_finer_than_a_millisecond_is_rounded_up() {
    for (fraction, ms) in [
        ("0", 0),
        ("000000000000", 0),
        ("0001", 1),
        ("0010", 1),
        ("0010000001", 2),
        ("9", 900),
        ("999", 999),
        ("999000000000000000000000001", 1_000),
    ] {
        let text = format!("2026-11-21T12:30:00.{fraction}+00:00");
        let read: Timestamp = text.parse().unwrap();
        assert_eq!(read.as_ms(), 1_795_264_200_000 + ms, "{text}");
    }
}

#[test]
fn a_leap_second_is_not_early() {
    let leap: Timestamp = "2016-12-31T23:59:60Z".parse().unwrap();
    assert_eq!(leap, "2017-01-01T00:00:00Z".parse().unwrap());
}

#[test]
fn other_texts_are_rejected_with_the_accepted_forms() {
    for text in [
        "",
        "now",
        "2026-11-21",
        "2026-11-21T12:30:00",
        "2026-11-21T12:30Z",
        "2026-11-21 12:30:00Z",
        "2026-11-21T12:30:00.Z",
        "2026-11-21T12:30:00,5Z",
        "2026-11-21T12:30:00+01",
        "2026-11-21T12:30:00+0100",
        "2026-11-21T12:30:00+24:00",
        "2026-11-21T12:30:00+01:60",
        "2026-11-21T12:30:00Z[Europe/Berlin]",
        "2026-02-30T12:30:00Z",
        "2026-13-01T12:30:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T12:30:61Z",
        "20261121T123000Z",
        "-2026-11-21T12:30:00Z",
        "+2026-11-21T12:30:00Z",
        "2026-11-21T12:30:00Ｚ",
    ] {
        let error = text.parse::<Timestamp>().unwrap_err();
        assert_eq!(error.code, ProblemCode::InvalidParameter, "{text}");
        for form in ["RFC 3339 with an offset", "+01:00", "integer in ms"] {
            assert!(error.detail.contains(form), "{text}: {}", error.detail);
        }
    }
    for value in [
        json!(-1),
        json!(1.795e12),
        json!(1e99),
        json!(true),
        json!({}),
    ] {
        let error = read(value.clone()).unwrap_err();
        assert!(error.contains("RFC 3339"), "{value}: {error}");
    }
}

#[test]
fn the_first_year_is_1970_and_the_last_is_9999() {
    for text in [
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:00:00+00:01",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T23:59:59.9991Z",
        "9999-12-31T23:59:60Z",
        "253402300800000",
        "99999999999999999999999",
    ] {
        let error = text.parse::<Timestamp>().unwrap_err();
        assert_eq!(
            error.code,
            ProblemCode::RunAtOutOfRange,
            "{text}: {}",
            error.detail
        );
    }
    let error = read(json!(TIME_MS_MAX + 1)).unwrap_err();
    assert!(error.starts_with("run_at_out_of_range: "), "{error}");
}

#[test]
fn seconds_in_place_of_milliseconds_are_found() {
    for seconds in [1, 1_795_264_200, TIMESTAMP_MS_MIN - 1] {
        let error = read(json!(seconds)).unwrap_err();
        assert!(error.contains("multiply by 1000"), "{error}");
    }
    assert_eq!(read(json!(TIMESTAMP_MS_MIN)), Ok(TIMESTAMP_MS_MIN));
}

#[test]
fn a_plus_that_a_query_has_made_a_space_is_explained() {
    let error = "2026-11-21T12:30:00.5 01:00"
        .parse::<Timestamp>()
        .unwrap_err();
    assert!(error.detail.contains("%2B"), "{}", error.detail);
    let other = "2026-11-21T12:30:00 UTC".parse::<Timestamp>().unwrap_err();
    assert!(!other.detail.contains("%2B"), "{}", other.detail);
}

proptest! {
    #[test]
    fn every_instant_is_read_as_it_is_written(ms in 0..=TIME_MS_MAX) {
        let instant = Timestamp(ms);
        let text = instant.to_string();
        prop_assert_eq!(text.len(), "2026-11-21T12:30:00.000Z".len());
        prop_assert_eq!(text.parse(), Ok(instant));
        prop_assert_eq!(read(json!(text)), Ok(ms));
    }

    #[test]
    fn texts_sort_as_instants_do(one in 0..=TIME_MS_MAX, other in 0..=TIME_MS_MAX) {
        let (one, other) = (Timestamp(one), Timestamp(other));
        prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
    }

    #[test]
    fn an_instant_is_never_early(seconds in 0_u64..200_000_000_000, nanos in 0_u64..1_000_000_000, minutes in -1439_i64..=1439) {
        let utc = Timestamp(seconds * 1000).to_string();
        let exact = u128::from(seconds) * 1_000_000_000 + u128::from(nanos);
        // The same local time in another offset is that much earlier or later.
        let (sign, size) = if minutes < 0 { ('-', -minutes) } else { ('+', minutes) };
        let text = format!("{}.{nanos:09}{sign}{:02}:{:02}", &utc[..19], size / 60, size % 60);
        let shifted = i128::try_from(exact).unwrap() - i128::from(minutes) * 60_000_000_000;
        match text.parse::<Timestamp>() {
            Ok(read) => {
                let late = i128::from(read.as_ms()) * 1_000_000 - shifted;
                prop_assert!((0..1_000_000).contains(&late), "{} ns late", late);
            }
            Err(error) => {
                prop_assert!(shifted < 0, "{}", error);
                prop_assert_eq!(error.code, ProblemCode::RunAtOutOfRange);
            }
        }
    }

    #[test]
    fn any_text_is_accepted_or_rejected_without_a_panic(
        text in "\\PC{0,70}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.+Z-]{0,30}",
    ) {
        if let Ok(instant) = text.parse::<Timestamp>() {
            prop_assert!(instant <= Timestamp::MAX);
        }
    }
}

#[test]
fn system_times_are_rounded_up() {
    let after = |nanos| Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos));
    assert_eq!((after(1_000_001).as_ms(), after(1_000_000).as_ms()), (2, 1));
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(Timestamp::from(before).as_ms(), 0);
}
