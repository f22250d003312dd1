//! The results of a soak as a table, and as files.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::deployment::PROCESSES;
use super::results::{SoakReport, SoakRestart};
use super::sample::{ProcessSample, SoakSample};
use super::verdict::{SoakCheck, soak_checks};

const MIB: f64 = 1_048_576.0;

impl SoakReport {
    /// Whether everything holds.
    #[must_use]
    pub fn is_good(&self) -> bool {
        soak_checks(self).iter().all(|check| check.holds)
    }

    /// The table: a line for each period, the events, and the verdict.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = heading();
        // Writing to a string cannot fail.
        for sample in self.last_of_periods() {
            let _ = writeln!(text, "{}", line(sample));
        }
        let _ = writeln!(
            text,
            "\n{} jobs/s{}, {} published, {} ended, {} deliveries, {} of unknown fate, {} left out",
            self.rate.round(),
            self.capacity.map_or_else(String::new, |capacity| format!(
                " of {capacity:.0} possible"
            )),
            self.jobs.published,
            self.jobs.ended,
            self.jobs.deliveries,
            self.jobs.unknown,
            self.left_out
        );
        let _ = writeln!(
            text,
            "{} scrapes, {} failed, longest {:.1} ms, largest {} KiB",
            self.scrapes.done,
            self.scrapes.failed,
            self.scrapes.longest.as_secs_f64() * 1000.0,
            self.scrapes.bytes_max / 1024
        );
        for restart in &self.restarts {
            let SoakRestart { at_s, name, took } = restart;
            let _ = writeln!(
                text,
                "{at_s:.0} s: {name} restarted in {:.1} s",
                took.as_secs_f64()
            );
        }
        let errors = self.errors.iter().map(|what| ("request", what));
        let defects = self.defects.iter().map(|what| ("DEFECT", what));
        let findings = self.audits.findings.iter().map(|what| ("AUDIT", what));
        for (kind, what) in errors.chain(defects).chain(findings) {
            let _ = writeln!(text, "{kind}: {what}");
        }
        text.push('\n');
        for SoakCheck {
            name,
            text: said,
            holds,
        } in soak_checks(self)
        {
            let word = if holds { "holds" } else { "FAILS" };
            let _ = writeln!(text, "{word}  {name}: {said}");
        }
        text
    }

    fn last_of_periods(&self) -> impl Iterator<Item = &SoakSample> {
        let period = self.times.period.as_secs_f64();
        let number = move |sample: &SoakSample| (sample.at_s / period) as usize;
        let next = self.samples.iter().skip(1).map(Some).chain([None]);
        let pairs = self.samples.iter().zip(next);
        pairs
            .filter(move |(one, next)| next.is_none_or(|next| number(next) > number(one)))
            .map(|(one, _)| one)
    }

    /// Writes `samples.csv` and `report.txt` into a folder. Returns the files.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> std::io::Result<Vec<PathBuf>> {
        let file = |name: &str| folder.join(name);
        let files = vec![file("samples.csv"), file("report.txt")];
        std::fs::write(&files[0], self.csv())?;
        std::fs::write(&files[1], self.table())?;
        Ok(files)
    }

    /// All samples, with a line of names. Fields of a process that restarts are empty.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = "at_s".to_owned();
        for name in PROCESSES {
            let _ = write!(
                text,
                ",{name}_resident_bytes,{name}_open_files,{name}_cpu_percent,{name}_cpu_wait_percent"
            );
        }
        text += ",redis_used_bytes,redis_clients,http_connections,lateness_p50_ms,lateness_p99_ms,\
                 published_per_s,ended_per_s,requests_per_s,errors,pending,calculation_us\n";
        for sample in &self.samples {
            let _ = write!(text, "{:.1}", sample.at_s);
            for process in &sample.processes {
                let _ = match process {
                    Some(used) => write!(
                        text,
                        ",{},{},{:.1},{:.1}",
                        used.resident_bytes,
                        used.open_files,
                        used.cpu_percent,
                        used.cpu_wait_percent
                    ),
                    None => write!(text, ",,,,"),
                };
            }
            let _ = writeln!(
                text,
                ",{},{},{},{:.3},{:.3},{:.1},{:.1},{:.1},{},{},{:.0}",
                sample.redis_used_bytes,
                sample.redis_clients,
                sample.http_connections,
                sample.lateness_p50_ms,
                sample.lateness_p99_ms,
                sample.published_per_s,
                sample.ended_per_s,
                sample.requests_per_s,
                sample.errors,
                sample.pending,
                sample.calculation_us
            );
        }
        text
    }
}

/// The heading of [`line()`].
#[must_use]
pub fn heading() -> String {
    format!(
        "{:>7} {:>24} {:>7} {:>17} {:>9} {:>9} {:>14} {:>15} {:>7} {:>7} {:>6}\n",
        "s",
        "MiB api-0/1 pump-0/1",
        "redis",
        "files of the four",
        "clients",
        "of redis",
        "ms late p50/99",
        "jobs/s in/out",
        "pending",
        "CPU %",
        "errors"
    )
}

/// One sample as a line of the table.
#[must_use]
pub fn line(sample: &SoakSample) -> String {
    let four = |value: fn(&ProcessSample) -> f64| {
        let shown = sample.processes[..4].iter().map(|process| {
            process
                .as_ref()
                .map_or_else(|| "-".to_owned(), |used| format!("{:.0}", value(used)))
        });
        shown.collect::<Vec<_>>().join("/")
    };
    let cpu: f64 = sample.processes[..5]
        .iter()
        .flatten()
        .map(|used| used.cpu_percent)
        .sum();
    format!(
        "{:>7.0} {:>24} {:>7.1} {:>17} {:>9} {:>9} {:>14} {:>15} {:>7} {:>7.0} {:>6}",
        sample.at_s,
        four(|used| used.resident_bytes as f64 / MIB),
        sample.redis_used_bytes as f64 / MIB,
        four(|used| used.open_files as f64),
        sample.http_connections,
        sample.redis_clients,
        format!(
            "{:.1}/{:.1}",
            sample.lateness_p50_ms, sample.lateness_p99_ms
        ),
        format!("{:.0}/{:.0}", sample.published_per_s, sample.ended_per_s),
        sample.pending,
        cpu,
        sample.errors
    )
}
