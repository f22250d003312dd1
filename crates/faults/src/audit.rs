//! `tidegate-pumpd audit --repair`, one after the other during the whole run. The data are healthy, so an audit that finds
//! or repairs anything is a defect. The last audit accounts for every key.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_testkit::{Program, run_to_end};

use crate::history::now;
use crate::oracle::{Defect, Verdict};
use crate::site::{AUDITOR, Site};

/// Between two audits during the run.
const PAUSE_MEANWHILE: Duration = Duration::from_millis(300);
/// An audit takes some seconds.
const LIMIT: Duration = Duration::from_secs(120);
/// The last audit meets no fault; what the ones before left behind may need a moment.
const LAST_TRIES: usize = 5;
/// Before the next try of the last audit.
const PAUSE: Duration = Duration::from_secs(2);

/// How many audits there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audits {
    /// Those that came to a verdict.
    pub done: usize,
    /// Those that said that they could not: Redis was away, or keys were on their way.
    pub in_vain: usize,
}

/// Audits one deployment again and again.
#[derive(Debug)]
pub(crate) struct Auditor {
    config: PathBuf,
    pools: &'static [&'static str],
    log: File,
    audits: Audits,
    found: Verdict,
}

impl Auditor {
    /// `folder` gets its settings, and what audits say.
    pub(crate) fn new(site: &Site, folder: &Path) -> Self {
        let config = folder.join("audit.toml");
        let log = File::create(folder.join("audit.log")).expect("a file can be written");
        let servers: Vec<_> = site.keeper.alone().collect();
        let settings = site.keeper.settings(Program::Pumpd, AUDITOR, &servers);
        std::fs::write(&config, settings).expect("a file can be written");
        Self {
            config,
            pools: site.keeper.pools(),
            log,
            audits: Audits::default(),
            found: Verdict::default(),
        }
    }

    /// Audits and repairs until it is dropped. That an audit cannot be done is no finding.
    pub(crate) async fn audit_meanwhile(&mut self) -> Infallible {
        loop {
            tokio::time::sleep(PAUSE_MEANWHILE).await;
            let _ = self.try_audit().await;
        }
    }

    /// Audits when everything is over: now it must be possible. Answers all audits, and what they found.
    pub(crate) async fn conclude(mut self) -> (Audits, Verdict) {
        for last in 1..=LAST_TRIES {
            match self.try_audit().await {
                Ok(()) => break,
                Err(said) if last == LAST_TRIES => {
                    self.find(format!("no audit can be done: {said}"))
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        (self.audits, self.found)
    }

    /// Audits all pools; otherwise returns what the audit said.
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
        let ended = run_to_end(Program::Pumpd, &flags, LIMIT).await;
        // A log that is missing is worth no run.
        let _ = self.log.write_all(ended.log.as_bytes());
        if !matches!(ended.code, Some(0 | 1)) {
            self.audits.in_vain += 1;
            return Err(ended.log);
        }
        self.audits.done += 1;
        for line in ended.log.lines().filter_map(defect) {
            self.find(format!("audit: {line}"));
        }
        Ok(())
    }

    fn find(&mut self, text: String) {
        self.found.find(Defect::Orphan, now(), text);
    }
}

/// What a line of an audit tells to be amiss, and where.
fn defect(line: &str) -> Option<String> {
    let told: serde_json::Value = serde_json::from_str(line).ok()?;
    let what = told["what"].as_str()?;
    Some(match told["bucket"].as_u64() {
        Some(bucket) => format!("bucket {bucket}: {what}"),
        None => what.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_told_from_the_rest() {
        let line =
            r#"{"bucket":3,"defect":"no_body","mended":false,"what":"job 7 has lost its body"}"#;
        let said = defect(line).unwrap();
        assert_eq!(said, "bucket 3: job 7 has lost its body");
        assert_eq!(
            defect(r#"{"buckets":256,"found":0,"jobs":3,"mended":0,"uncounted":0}"#),
            None
        );
        assert_eq!(defect("INFO connected"), None);
    }
}
