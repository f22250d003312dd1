use std::time::{Duration, Instant};

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn ms(text: &str) -> u64 {
    let instant: Timestamp = text.parse().unwrap();
    u64::try_from(instant.as_millisecond()).unwrap()
}

fn rule(times: TickTimes) -> ScheduleRule {
    ScheduleRule {
        times,
        starts_at_ms: None,
        ends_at_ms: None,
    }
}

fn cron(pattern: &str, zone: &str) -> ScheduleRule {
    rule(TickTimes::cron(pattern, zone).unwrap())
}

/// The ticks in this span, as UTC.
fn ticks(rule: &ScheduleRule, from: &str, until: &str) -> Vec<String> {
    let mut at_ms = ms(from) - 1;
    let mut found = Vec::new();
    while let Some(tick_ms) = rule.next_after(at_ms).filter(|tick| *tick < ms(until)) {
        let instant = Timestamp::from_millisecond(i64::try_from(tick_ms).unwrap()).unwrap();
        found.push(instant.to_string());
        at_ms = tick_ms;
    }
    found
}

#[test]
fn a_pattern_follows_the_wall_clock_of_its_zone() {
    let weekdays = cron("0 9 * * MON-FRI", "Europe/Berlin");
    // The clock is set forward on Sunday, 29 March 2026.
    assert_eq!(
        ticks(&weekdays, "2026-03-27T00:00:00Z", "2026-04-01T00:00:00Z"),
        [
            "2026-03-27T08:00:00Z",
            "2026-03-30T07:00:00Z",
            "2026-03-31T07:00:00Z"
        ]
    );
    let seconds = cron("*/30 0 12 * * *", "UTC");
    assert_eq!(
        ticks(&seconds, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ["2026-01-01T12:00:00Z", "2026-01-01T12:00:30Z"]
    );
}

/// Only one second, one minute and one hour are a fixed time.
#[test]
fn lists_and_ranges_of_hours_skip_a_gap_and_run_in_both_passes() {
    for (pattern, in_gap) in [
        ("30 2,14 * * *", vec!["2026-03-29T12:30:00Z"]),
        ("30 1-2 * * *", vec!["2026-03-29T00:30:00Z"]),
    ] {
        let rule = cron(pattern, "Europe/Berlin");
        let found = ticks(&rule, "2026-03-29T00:00:00Z", "2026-03-29T20:00:00Z");
        assert_eq!(found, in_gap, "{pattern}");
        let found = ticks(&rule, "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z");
        let twice = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"];
        assert_eq!(found, twice, "{pattern}");
    }
    // The clock is set from 23:00 of Saturday to 00:00 of Sunday, which is another day.
    let saturdays = cron("30 23 * * SAT", "America/Nuuk");
    let found = ticks(&saturdays, "2026-03-28T00:00:00Z", "2026-04-02T00:00:00Z");
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_fixed_time_in_a_gap_runs_behind_it() {
    // 02:00 to 03:00 does not exist on 29 March 2026: 02:30 runs at 03:00, which is 01:00 UTC.
    let daily = cron("30 2 * * *", "Europe/Berlin");
    assert_eq!(
        ticks(&daily, "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z"),
        [
            "2026-03-28T01:30:00Z",
            "2026-03-29T01:00:00Z",
            "2026-03-30T00:30:00Z"
        ]
    );
}

#[test]
fn a_wildcard_skips_a_gap() {
    let half_hours = cron("*/30 1-3 * * *", "Europe/Berlin");
    assert_eq!(
        ticks(&half_hours, "2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z"),
        [
            "2026-03-29T00:00:00Z",
            "2026-03-29T00:30:00Z",
            "2026-03-29T01:00:00Z",
            "2026-03-29T01:30:00Z"
        ]
    );
}

#[test]
fn a_fixed_time_that_is_repeated_runs_once() {
    // 02:00 to 03:00 is there twice on 25 October 2026: from 00:00 UTC, and from 01:00 UTC.
    let daily = cron("30 2 * * *", "Europe/Berlin");
    assert_eq!(
        ticks(&daily, "2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z"),
        [
            "2026-10-24T00:30:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-26T01:30:00Z"
        ]
    );
}

#[test]
fn a_wildcard_runs_in_both_passes_of_a_repeated_hour() {
    let half_hours = cron("*/30 2 * * *", "Europe/Berlin");
    assert_eq!(
        ticks(&half_hours, "2026-10-25T00:00:00Z", "2026-10-26T00:00:00Z"),
        [
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:30:00Z"
        ]
    );
}

#[test]
fn what_is_no_schedule_is_refused() {
    for pattern in [
        "",
        "9",
        "0 9 * *",
        "61 * * * *",
        "0 9 * * MON-XYZ",
        "0 0 30 2 *",
        "0 0 0 1 1 * 2026",
    ] {
        let refused = TickTimes::cron(pattern, "UTC");
        assert!(
            matches!(refused, Err(InvalidSchedule::Cron(_))),
            "{pattern} {refused:?}"
        );
    }
    for zone in ["", "Mars/Olympus", "CEST", "+02:00"] {
        let refused = TickTimes::cron("0 9 * * *", zone);
        assert!(
            matches!(refused, Err(InvalidSchedule::TimeZone(_))),
            "{zone} {refused:?}"
        );
    }
    assert!(TickTimes::every(EVERY_MS_MIN - 1).is_err());
    assert!(TickTimes::every(u64::MAX).is_err());
    assert!(TickTimes::every(EVERY_MS_MIN).is_ok());
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the time that the refusal takes is tested"
)]
fn a_pattern_without_a_day_is_refused_at_once() {
    let begin = Instant::now();
    for pattern in [
        "0 0 30 2 *",
        "*/5 * 31 4,6,9,11 *",
        "0 0 31 1 +SUN#1",
        "0 0 29 2 +MON#1",
    ] {
        let refused = TickTimes::cron(pattern, "Europe/Berlin");
        assert!(
            matches!(refused, Err(InvalidSchedule::Cron(_))),
            "{pattern} {refused:?}"
        );
    }
    // A search up to the year 5000 takes a hundred times as long as all days of 28 years.
    let elapsed = begin.elapsed();
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
    for pattern in [
        "0 0 29 2 *",
        "0 0 29 2 +MON#5",
        "0 0 L 2 *",
        "0 0 31W * *",
        "0 0 * * SUN#5",
    ] {
        assert!(TickTimes::cron(pattern, "UTC").is_ok(), "{pattern}");
    }
}

/// The hour from 2 to 3 on the second Sunday of March does not exist in New York, and croner looks at each of its
/// seconds.
#[test]
fn a_pattern_that_matches_only_in_a_gap_is_refused() {
    let gap = "* * 2 * 3 SUN#2";
    let refused = TickTimes::cron(gap, "America/New_York");
    assert!(
        matches!(refused, Err(InvalidSchedule::Cron(_))),
        "{refused:?}"
    );
    assert!(TickTimes::cron(gap, "UTC").is_ok());
    // A fixed time runs behind the gap.
    assert!(TickTimes::cron("30 2 * 3 SUN#2", "America/New_York").is_ok());
    // It is rare, but no gap.
    assert!(TickTimes::cron("0 0 29 2 +MON", "America/New_York").is_ok());
    for name in ["@daily", " 0 9 * * * ", "30 0 9 * * MON"] {
        assert!(TickTimes::cron(name, "Europe/Berlin").is_ok(), "{name}");
    }
}

#[test]
fn every_counts_from_the_begin_or_from_1970() {
    let mut quarters = rule(TickTimes::every(15 * 60_000).unwrap());
    assert_eq!(
        quarters.next_after(ms("2026-01-01T10:01:00Z")),
        Some(ms("2026-01-01T10:15:00Z"))
    );
    assert_eq!(
        quarters.next_after(ms("2026-01-01T10:15:00Z")),
        Some(ms("2026-01-01T10:30:00Z"))
    );
    quarters.starts_at_ms = Some(ms("2026-01-01T10:07:00Z"));
    quarters.ends_at_ms = Some(ms("2026-01-01T10:37:00Z"));
    assert_eq!(
        ticks(&quarters, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        [
            "2026-01-01T10:07:00Z",
            "2026-01-01T10:22:00Z",
            "2026-01-01T10:37:00Z"
        ]
    );
    assert_eq!(quarters.last_until(ms("2026-01-01T10:06:59Z")), None);
    assert_eq!(
        quarters.last_until(ms("2026-01-02T00:00:00Z")),
        quarters.ends_at_ms
    );
}

#[test]
fn a_begin_within_a_second_leaves_out_that_second() {
    let mut minutes = cron("* * * * *", "UTC");
    minutes.starts_at_ms = Some(ms("2026-01-01T10:00:00.001Z"));
    minutes.ends_at_ms = Some(ms("2026-01-01T10:01:59.999Z"));
    assert_eq!(
        ticks(&minutes, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ["2026-01-01T10:01:00Z"]
    );
    minutes.starts_at_ms = Some(ms("2026-01-01T10:00:00Z"));
    assert_eq!(
        minutes.next_after(0),
        minutes.starts_at_ms,
        "the begin is a tick"
    );
}

/// Plans ticks until none is due. Returns the times for which jobs are published, in seconds, and the next tick.
fn caught_up(which: CatchUp, window_ms: Option<u64>, now_s: u64) -> (Vec<u64>, Option<u64>) {
    let rule = rule(TickTimes::every(10_000).unwrap());
    let (mut due_ms, now_ms) = (Some(100_000), now_s * 1000);
    let mut published = Vec::new();
    while let Some(tick_ms) = due_ms.filter(|tick| *tick <= now_ms) {
        let plan = TickPlan::new(&rule, CatchUpRule { which, window_ms }, tick_ms, now_ms);
        published.extend(plan.publish_ms.map(|tick| tick / 1000));
        due_ms = plan.next_ms;
    }
    (published, due_ms.map(|tick| tick / 1000))
}

#[test]
fn missed_ticks_are_caught_up_as_the_rule_says() {
    for (which, window_s, now_s, published) in [
        (CatchUp::One, None, 100, vec![100]),
        (CatchUp::One, None, 135, vec![130]),
        (CatchUp::One, Some(5), 135, vec![130]),
        (CatchUp::One, Some(4), 135, vec![]),
        (CatchUp::None, None, 100, vec![100]),
        (CatchUp::None, None, 135, vec![130]),
        (CatchUp::None, Some(4), 135, vec![]),
        (CatchUp::All, None, 135, vec![100, 110, 120, 130]),
        (CatchUp::All, Some(15), 135, vec![120, 130]),
        (CatchUp::All, Some(4), 135, vec![]),
    ] {
        let (done, next_s) = caught_up(which, window_s.map(|s: u64| s * 1000), now_s);
        assert_eq!(done, published, "{which:?} {window_s:?} {now_s}");
        assert_eq!(next_s, Some(now_s / 10 * 10 + 10));
    }
}

#[test]
fn each_tick_that_is_not_missed_is_published() {
    let rule = rule(TickTimes::every(1000).unwrap());
    for (which, window_ms, first_s) in [
        (CatchUp::One, None, 100),
        (CatchUp::None, None, 100),
        (CatchUp::All, None, 100),
        (CatchUp::One, Some(4000), 106),
        (CatchUp::None, Some(4000), 106),
    ] {
        let (mut due_ms, now_ms, mut published) = (100_000, 100_000 + MISSED_AFTER_MS, vec![]);
        while due_ms <= now_ms {
            let plan = TickPlan::new(&rule, CatchUpRule { which, window_ms }, due_ms, now_ms);
            published.extend(plan.publish_ms.map(|tick| tick / 1000));
            due_ms = plan.next_ms.unwrap();
        }
        let expected: Vec<u64> = (first_s..=110).collect();
        assert_eq!(published, expected, "{which:?} {window_ms:?}");
    }
}

/// No pump was running for a minute. The ticks of the last 10 s are not missed.
#[test]
fn after_an_outage_one_publishes_each_tick_that_is_not_missed() {
    let rule = rule(TickTimes::every(2000).unwrap());
    for (which, window_ms, first_s) in [
        (CatchUp::One, None, 150),
        (CatchUp::None, None, 150),
        (CatchUp::One, Some(5000), 156),
        (CatchUp::One, Some(30_000), 150),
    ] {
        let (mut due_ms, now_ms, mut published) = (100_000, 160_000, vec![]);
        while due_ms <= now_ms {
            let plan = TickPlan::new(&rule, CatchUpRule { which, window_ms }, due_ms, now_ms);
            published.extend(plan.publish_ms.map(|tick| tick / 1000));
            due_ms = plan.next_ms.unwrap();
        }
        let expected: Vec<u64> = (first_s..=160).step_by(2).collect();
        assert_eq!(published, expected, "{which:?} {window_ms:?}");
    }
}

#[test]
fn without_catch_up_a_tick_of_long_ago_is_left_out() {
    let hourly = cron("0 * * * *", "UTC");
    let tick_ms = ms("2026-01-01T10:00:00Z");
    for (late_ms, is_published) in [
        (0, true),
        (MISSED_AFTER_MS, true),
        (MISSED_AFTER_MS + 1, false),
    ] {
        let rule = CatchUpRule {
            which: CatchUp::None,
            window_ms: None,
        };
        let plan = TickPlan::new(&hourly, rule, tick_ms, tick_ms + late_ms);
        assert_eq!(plan.publish_ms.is_some(), is_published, "{late_ms}");
        assert_eq!(plan.next_ms, Some(ms("2026-01-01T11:00:00Z")));
    }
}

proptest! {
    /// Searching backwards finds the ticks that searching forwards finds, around the days on which clocks are set too.
    #[test]
    fn the_last_tick_is_one_of_the_next_ticks(
        pattern in prop::sample::select(vec!["30 2 * * *", "*/20 * * * *", "*/7 1-3 * * *", "0 0 1 * *", "15 */2 * * SUN"]),
        day in prop::sample::select(vec!["2026-03-28T00:00:00Z", "2026-10-24T00:00:00Z", "2026-06-01T00:00:00Z"]),
        seconds in 0_u64..3 * 86_400,
    ) {
        let rule = cron(pattern, "Europe/Berlin");
        let now_ms = ms(day) + seconds * 1000;
        let last_ms = rule.last_until(now_ms).unwrap();
        prop_assert!(last_ms <= now_ms);
        prop_assert_eq!(rule.next_after(last_ms - 1000), Some(last_ms));
        prop_assert!(rule.next_after(last_ms).unwrap() > now_ms);
    }
}

#[test]
fn a_step_that_is_longer_than_its_field_is_rejected() {
    for pattern in [
        "*/90 * * * *",
        "0 */25 * * *",
        "*/60 * * * * *",
        "0 0 */31 * *",
        "0 0 1 */12 *",
        "0 0 * * */7",
        "5,10-20/90 * * * *",
    ] {
        let error = TickTimes::cron(pattern, "UTC").unwrap_err().to_string();
        assert!(error.contains("use every"), "{pattern}: {error}");
    }
    for pattern in ["*/59 * * * *", "0 */23 * * *", "*/30 * * * * *", "@daily"] {
        assert!(TickTimes::cron(pattern, "UTC").is_ok(), "{pattern}");
    }
}

/// The days of a month at which a pattern has ticks. October 2026 begins on a Thursday and has 31 days.
fn days(pattern: &str) -> Vec<u32> {
    let found = ticks(
        &cron(pattern, "UTC"),
        "2026-10-01T00:00:00Z",
        "2026-11-01T00:00:00Z",
    );
    let days = found.iter().map(|tick| tick[8..10].parse().unwrap());
    days.collect()
}

/// The forms that differ between programs, as in docs/api.md.
#[test]
fn days_and_weekdays_are_joined_as_documented() {
    // Either of them.
    assert_eq!(days("0 9 13 * FRI"), [2, 9, 13, 16, 23, 30]);
    // Both of them.
    assert_eq!(days("0 9 1-7 * +FRI"), [2]);
    // Vixie cron joins a field that begins with * by AND: only the Fridays with an odd day.
    let odd_days = (1..=31).filter(|day| day % 2 == 1);
    let mut either: Vec<u32> = odd_days.chain([2, 16, 30]).collect();
    either.sort_unstable();
    assert_eq!(days("0 9 */2 * FRI"), either);
    assert_eq!(days("0 9 */2 * +FRI"), [9, 23]);
    assert_eq!(days("0 9 L * *"), [31]);
    assert_eq!(days("0 9 * * FRI#L"), [30]);
    assert_eq!(days("0 9 * * FRI#2"), [9]);
    // The 10th is a Saturday.
    assert_eq!(days("0 9 10W * *"), [9]);
    assert_eq!(days("@daily").len(), 31);
    assert_eq!(days("@weekly"), [4, 11, 18, 25]);
    assert_eq!(days("@monthly"), [1]);
}
