//! Runs `tidegate-pumpd audit --repair` in a loop during the whole run. The data are consistent, so anything that an
//! audit finds or repairs is a finding of the run. The last audit, after the run, checks every key.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_testkit::{DaemonProgram, run_until_exit};

use crate::history::now;
use crate::oracle::{Defect, Verdict};
use crate::test_cluster::{AUDITOR, TestCluster};

/// Pause between two audits during the run.
const PAUSE_MEANWHILE: Duration = Duration::from_millis(300);
/// Time limit of an audit, which usually takes some seconds.
const LIMIT: Duration = Duration::from_secs(120);
/// Attempts of the last audit. No fault is active then, but the effects of earlier ones may need a moment to end.
const LAST_TRIES: usize = 5;
/// Pause between attempts of the last audit.
const PAUSE: Duration = Duration::from_secs(2);

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
pub(crate) struct Auditor {
    config: PathBuf,
    pools: &'static [&'static str],
    log: File,
    audits: Audits,
    found: Verdict,
}

impl Auditor {
    /// Writes the settings of the audits and their output to `folder`.
    pub(crate) fn new(test_cluster: &TestCluster, folder: &Path) -> Self {
        let config = folder.join("audit.toml");
        let log = File::create(folder.join("audit.log")).expect("a file can be written");
        let servers: Vec<_> = test_cluster.redis.standalone_addresses().collect();
        let settings = test_cluster
            .redis
            .settings(DaemonProgram::Pumpd, AUDITOR, &servers);
        std::fs::write(&config, settings).expect("a file can be written");
        Self {
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

    /// Audits after the end of the run; this audit must succeed. Returns the numbers of all audits, and their
    /// findings.
    pub(crate) async fn finish(mut self) -> (Audits, Verdict) {
        for last in 1..=LAST_TRIES {
            match self.try_audit().await {
                Ok(()) => break,
                Err(said) if last == LAST_TRIES => {
                    self.add_finding(format!("the last audit failed: {said}"))
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        (self.audits, self.found)
    }

    /// Audits all pools. The error is the output of the audit.
    async fn try_audit(&mut self) -> Result<(), String> {
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
}
