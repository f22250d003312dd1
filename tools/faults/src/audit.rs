//! Runs `tidegate-pumpd audit --repair` in a loop during the whole run. The data are consistent, so anything that an
//! audit finds or repairs is a finding of the run. The last audit, after the run, checks every key.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_testkit::{DaemonProgram, run_until_exit};

use crate::fault::Class;
use crate::history::{Episode, now};
use crate::oracle::{Defect, Finding, Verdict};
use crate::test_cluster::{AUDITOR, TestCluster};

/// Pause between two audits during the run.
const PAUSE_MEANWHILE: Duration = Duration::from_millis(300);
/// Time limit of an audit, which usually takes some seconds.
const LIMIT: Duration = Duration::from_secs(120);
/// Attempts of the last audit. No fault is active then, but the effects of earlier ones may need a moment to end.
const LAST_TRIES: usize = 5;
/// Pause between attempts of the last audit.
const PAUSE: Duration = Duration::from_secs(2);
/// The end of the finding that a key has a wrong time to live.
const WRONG_TTL: &str = ": has a wrong time to live";

/// Numbers of audits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audits {
    /// Completed audits.
    pub done: usize,
    /// Audits that could not be completed: Redis was unavailable, or slots were moving.
    pub failed: usize,
}

/// Audits one deployment repeatedly.
#[derive(Debug)]
pub(crate) struct Auditor<'a> {
    test_cluster: &'a TestCluster,
    config: PathBuf,
    pools: &'static [&'static str],
    log: File,
    audits: Audits,
    found: Verdict,
}

impl<'a> Auditor<'a> {
    /// Writes the settings of the audits and their output to `folder`.
    pub(crate) fn new(test_cluster: &'a TestCluster, folder: &Path) -> Self {
        let config = folder.join("audit.toml");
        let log = File::create(folder.join("audit.log")).expect("a file can be written");
        std::fs::write(&config, settings(test_cluster)).expect("a file can be written");
        Self {
            test_cluster,
            config,
            pools: test_cluster.redis.pools(),
            log,
            audits: Audits::default(),
            found: Verdict::default(),
        }
    }

    /// Audits and repairs until the future is dropped. An audit that cannot be completed is not a finding.
    pub(crate) async fn audit_continuously(&mut self) -> Infallible {
        loop {
            tokio::time::sleep(PAUSE_MEANWHILE).await;
            let _ = self.try_audit().await;
        }
    }

    /// Audits after the end of the run; this audit must succeed. Returns the numbers of all audits, and the numbers of
    /// their findings that no episode explains.
    pub(crate) async fn finish(mut self, episodes: &[Episode]) -> (Audits, Verdict) {
        for last in 1..=LAST_TRIES {
            match self.try_audit().await {
                Ok(()) => break,
                Err(said) if last == LAST_TRIES => {
                    self.add_finding(format!("the last audit failed: {said}"))
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        let findings = &mut self.found.findings;
        findings.retain(|finding| !is_from_clock(finding, episodes));
        (self.audits, self.found)
    }

    /// Audits all pools. The error is the output of the audit.
    async fn try_audit(&mut self) -> Result<(), String> {
        let redis = &self.test_cluster.redis;
        if redis.standalone_addresses().next().is_some() {
            // Audits use no proxy, and another server may be the master now.
            let written = std::fs::write(&self.config, settings(self.test_cluster));
            written.expect("a file can be written");
        }
        for pool in self.pools {
            self.try_audit_of(pool).await?;
        }
        Ok(())
    }

    async fn try_audit_of(&mut self, pool: &str) -> Result<(), String> {
        let config = self.config.display().to_string();
        let mut flags = vec!["audit", "--config", &config, "--json", "--repair"];
        flags.extend(["--pool", pool, "--pause-ms", "0"]);
        let ended = run_until_exit(DaemonProgram::Pumpd, &flags, LIMIT).await;
        // A missing log is no reason to fail the run.
        let _ = self.log.write_all(ended.log.as_bytes());
        if !matches!(ended.code, Some(0 | 1)) {
            self.audits.failed += 1;
            return Err(ended.log);
        }
        self.audits.done += 1;
        for line in ended.log.lines().filter_map(finding_in) {
            self.add_finding(format!("audit: {line}"));
        }
        Ok(())
    }

    fn add_finding(&mut self, text: String) {
        self.found.add_finding(Defect::Orphan, now(), text);
    }
}

/// Returns the settings of audits.
fn settings(test_cluster: &TestCluster) -> String {
    let redis = &test_cluster.redis;
    let servers: Vec<_> = redis.standalone_addresses().collect();
    redis.settings(DaemonProgram::Pumpd, AUDITOR, &servers)
}

/// Whether a finding is that an uploaded payload would stay too long, after the clock of Redis was moved: it expires by
/// that clock, so it stays longer if the clock was set back meanwhile.
fn is_from_clock(finding: &Finding, episodes: &[Episode]) -> bool {
    let mut moved = episodes.iter().filter(|it| it.class == Class::RedisClock);
    let has_moved = moved.any(|episode| episode.span.from <= finding.at);
    has_moved && finding.text.contains(":upload:") && finding.text.ends_with(WRONG_TTL)
}

/// Returns the finding in a line of an audit's output, with its bucket.
fn finding_in(line: &str) -> Option<String> {
    let finding: serde_json::Value = serde_json::from_str(line).ok()?;
    let what = finding["text"].as_str()?;
    Some(match finding["bucket"].as_u64() {
        Some(bucket) => format!("bucket {bucket}: {what}"),
        None => what.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Span;

    #[test]
    fn only_findings_are_extracted() {
        let line =
            r#"{"bucket":3,"finding":"no_body","repaired":false,"text":"job 7 has lost its body"}"#;
        let said = finding_in(line).unwrap();
        assert_eq!(said, "bucket 3: job 7 has lost its body");
        assert_eq!(
            finding_in(r#"{"buckets":256,"found":0,"jobs":3,"not_compared":0,"repaired":0}"#),
            None
        );
        assert_eq!(finding_in("INFO connected"), None);
    }

    #[test]
    fn an_upload_stays_longer_after_the_clock_of_redis_was_set_back() {
        let episode = |class| Episode {
            class,
            what: String::new(),
            span: Span { from: 10, to: 20 },
            excuses_until: 20,
            may_lose: None,
            unaffected_queues: Vec::new(),
            unaffected_from: 0,
            idle_closed: Vec::new(),
        };
        let is_explained = |key: &str, class, at| {
            let finding = Finding {
                defect: Defect::Orphan,
                at,
                text: format!("audit: bucket 3: tg:3:{{1}}:{key}: has a wrong time to live"),
            };
            is_from_clock(&finding, &[episode(class)])
        };
        assert!(is_explained("upload:a:0", Class::RedisClock, 30));
        assert!(!is_explained("upload:a:0", Class::RedisClock, 9));
        assert!(!is_explained("upload:a:0", Class::Clock, 30));
        assert!(!is_explained("body:1", Class::RedisClock, 30));
    }
}
