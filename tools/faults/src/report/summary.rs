//! Summary of many runs in one table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use super::run_summary::{FaultEffects, RunSummary, kept_in};
use super::table::{seconds, shown_ms};
use crate::fault::Class;
use crate::oracle::Defect;

/// The kinds of findings with a separate column, and the column headings.
const COUNTED: [(Defect, &str); 6] = [
    (Defect::Lost, "lost"),
    (Defect::Doubled, "doubled"),
    (Defect::Early, "early"),
    (Defect::Late, "late"),
    (Defect::AfterItsEnd, "ended"),
    (Defect::Orphan, "orphans"),
];

/// Returns one line per run, the total, and the effects of each class of fault. Void runs are shown but not
/// counted.
#[must_use]
pub fn summary(runs: &[RunSummary]) -> String {
    let mut text = head();
    for facts in runs {
        text += &line(facts);
    }
    let counted: Vec<&RunSummary> = runs.iter().filter(|facts| !facts.is_void()).collect();
    text += &total(&counted);
    let void = runs.len() - counted.len();
    if void > 0 {
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "{void} void: the harness was stalled or the machine's clock was moved; not counted"
        );
    }
    let busy = counted.iter().filter(|facts| !facts.proves_lateness);
    match busy.count() {
        0 => {}
        busy => {
            let _ = writeln!(
                text,
                "{busy} prove nothing about lateness: the machine was too busy"
            );
        }
    }
    text + &classes(&counted)
}

/// Writes the summary of all runs in `folder` to `summary.txt` and `summary.json` there. Returns the table.
///
/// # Errors
/// A file cannot be read or written.
pub fn write_summary(folder: &Path) -> io::Result<String> {
    let runs = kept_in(folder)?;
    let text = summary(&runs);
    fs::write(folder.join("summary.txt"), &text)?;
    fs::write(
        folder.join("summary.json"),
        serde_json::to_vec_pretty(&runs)?,
    )?;
    Ok(text)
}

fn head() -> String {
    let mut text = format!(
        "{:>10}  {:19}  {:>6}  {:>8}  {:>8}  {:>6}  {:>10}  {:>10}",
        "seed", "deployment", "s", "jobs", "came", "audits", "latest", "with redis"
    );
    for (_, head) in COUNTED {
        let _ = write!(text, "  {head:>7}");
    }
    text + "  other  faults\n"
}

fn line(facts: &RunSummary) -> String {
    let latest = shown_ms(facts.latest);
    let classes = facts
        .faults
        .iter()
        .map(|(class, struck)| match struck.times {
            1 => class.name(),
            times => format!("{} x{times}", class.name()),
        });
    let classes: Vec<String> = classes.collect();
    let void = if facts.is_void() { "VOID  " } else { "" };
    format!(
        "{:>10}  {:19}  {:>6}  {:>8}  {:>8}  {:>6}  {latest:>10}  {:>10}{}  {void}{}\n",
        facts.seed,
        facts.deployment.name_with(facts.is_replicated),
        seconds(facts.length),
        facts.jobs,
        facts.deliveries,
        facts.audits,
        facts.lost_with_redis,
        defects(&[facts]),
        classes.join(", "),
    )
}

fn total(runs: &[&RunSummary]) -> String {
    let sum = |of: fn(&RunSummary) -> usize| runs.iter().map(|facts| of(facts)).sum::<usize>();
    let latest = runs.iter().filter_map(|facts| facts.latest).max();
    format!(
        "{:>10}  {:19}  {:>6}  {:>8}  {:>8}  {:>6}  {:>10}  {:>10}{}  {} episodes\n",
        "all",
        format!("{} runs", runs.len()),
        seconds(runs.iter().map(|facts| facts.length).sum()),
        sum(|facts| facts.jobs),
        sum(|facts| facts.deliveries),
        sum(|facts| facts.audits),
        shown_ms(latest),
        sum(|facts| facts.lost_with_redis),
        defects(runs),
        sum(|facts| facts.faults.values().map(|it| it.times).sum()),
    )
}

fn defects(runs: &[&RunSummary]) -> String {
    let of = |(defect, _)| {
        let counts = runs.iter().filter_map(|facts| facts.findings.get(&defect));
        counts.sum::<usize>()
    };
    let all: usize = runs.iter().flat_map(|facts| facts.findings.values()).sum();
    let counts = COUNTED.map(of);
    let mut text: String = counts.iter().map(|count| format!("  {count:>7}")).collect();
    let _ = write!(text, "  {:>5}", all - counts.iter().sum::<usize>());
    text
}

/// Returns the effects of each class.
fn classes(runs: &[&RunSummary]) -> String {
    let mut all: BTreeMap<Class, FaultEffects> = BTreeMap::new();
    for (class, struck) in runs.iter().flat_map(|facts| &facts.faults) {
        let before = all.entry(*class).or_default();
        *before = before.combine(*struck);
    }
    let mut text = format!(
        "\n{:14}  {:>8}  {:>12}  {:>24}\n",
        "faults", "episodes", "latest job", "first publish after it"
    );
    for (class, struck) in all {
        let _ = writeln!(
            text,
            "{:14}  {:>8}  {:>12}  {:>24}",
            class.name(),
            struck.times,
            shown_ms(struck.latest),
            shown_ms(struck.recovery)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::Deployment;

    fn facts(seed: u64, found: Option<Defect>) -> RunSummary {
        RunSummary {
            seed,
            deployment: Deployment::Cluster,
            is_replicated: false,
            began: seed,
            length: 60_000_000,
            faults: [
                (Class::Failover, struck(2, seed)),
                (Class::NetCut, struck(1, 3)),
            ]
            .into(),
            requests: 5000,
            jobs: 1000,
            deliveries: 1200,
            audits: 3,
            lost_with_redis: 1,
            latest: Some(seed * 1000),
            bound: 300_000,
            proves_lateness: true,
            findings: found.into_iter().map(|defect| (defect, 1)).collect(),
        }
    }

    fn struck(times: usize, ms: u64) -> FaultEffects {
        FaultEffects {
            times,
            latest: Some(ms * 1000),
            recovery: None,
        }
    }

    #[test]
    fn runs_add_up_and_void_runs_do_not_count() {
        let runs = [
            facts(7, None),
            facts(8, Some(Defect::Late)),
            facts(9, Some(Defect::Void)),
        ];
        let text = summary(&runs);
        let all = text
            .lines()
            .find(|line| line.trim_start().starts_with("all"))
            .unwrap();
        let words: Vec<&str> = all.split_whitespace().collect();
        let expected = "all 2 runs 120.0 2000 2400 6 8.0 ms 2 0 0 0 1 0 0 0 6 episodes";
        assert_eq!(words.join(" "), expected, "{text}");
        assert!(text.contains("\n1 void: "), "{text}");
        let failover = text.lines().find(|line| line.starts_with("failover"));
        let words: Vec<&str> = failover.unwrap().split_whitespace().collect();
        assert_eq!(words, ["failover", "4", "8.0", "ms", "-"]);
    }

    #[test]
    fn the_summary_has_all_stored_runs() {
        let folder = tempfile::tempdir().unwrap();
        for seed in [8, 7] {
            let run = folder.path().join(seed.to_string());
            fs::create_dir(&run).unwrap();
            facts(seed, None).write(&run).unwrap();
        }
        let text = write_summary(folder.path()).unwrap();
        assert_eq!(text, summary(&[facts(7, None), facts(8, None)]));
        assert_eq!(
            fs::read_to_string(folder.path().join("summary.txt")).unwrap(),
            text
        );
        // An existing summary is not taken for a run.
        assert_eq!(write_summary(folder.path()).unwrap(), text);
    }
}
