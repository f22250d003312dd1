//! Measures how slow the machine is because other programs use its processors and its disk.
//!
//! A thread writes a byte to the disk and syncs it five times a second, as Redis does, and records how late that
//! completes. It also reads how long the threads of this process waited for a processor; they are representative of the
//! other processes of a run. It reads this just as often, because the counters of a thread are lost when it ends, and
//! threads end with other runs of the process.
//!
//! A second in which work took far longer than in most others, or in which the byte was far too late, does not count
//! for lateness. The bound is for the median second, so that it stays tight.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::history::{Span, UnixMicros, merge_spans, now};

const INTERVAL: Duration = Duration::from_millis(200);
/// Number of samples that are evaluated together: 1 s.
const WINDOW: usize = 5;
/// A second is busy if work takes this many times longer than in the median second.
const BUSY_TIMES: f64 = 2.5;
/// A second is busy if a sample takes longer than the bound divided by this. From its due time to its delivery a job is
/// written to disk twice, and several processes are woken.
const BUSY_PART: u64 = 5;
/// How long after a busy second jobs may be late because of it, in µs.
const BUSY_AFTER: u64 = 200_000;

/// Measures the machine until this is dropped.
#[derive(Debug)]
pub(crate) struct MachineMonitor {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<LoadSample>>>,
}

/// One sample: a synced write, and the times of threads since the previous sample.
#[derive(Debug, Clone, Copy)]
struct LoadSample {
    /// When it completed.
    at: UnixMicros,
    write_time: Duration,
    times: CpuTimes,
}

/// How long threads have run, and how long they have waited for a processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CpuTimes {
    run_ns: u64,
    waited_ns: u64,
}

/// The times of threads at the last sample.
#[derive(Debug, Default)]
struct ThreadTimes(HashMap<String, CpuTimes>);

impl ThreadTimes {
    /// Returns the difference since the last sample. A new thread has started since then.
    fn difference(&mut self, now: HashMap<String, CpuTimes>) -> CpuTimes {
        let mut all = CpuTimes::default();
        for (thread, times) in &now {
            let before = self.0.get(thread).copied().unwrap_or_default();
            all.run_ns += times.run_ns.saturating_sub(before.run_ns);
            all.waited_ns += times.waited_ns.saturating_sub(before.waited_ns);
        }
        self.0 = now;
        all
    }
}

/// The samples of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct MachineLoad(Vec<LoadSample>);

impl MachineMonitor {
    /// Starts to measure, with a file in this folder.
    pub(crate) fn start(folder: &Path) -> io::Result<Self> {
        let file = File::create(folder.join("monitor"))?;
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ended);
        let thread = std::thread::spawn(move || measure(file, &is_over));
        Ok(Self {
            ended,
            thread: Some(thread),
        })
    }

    /// Stops measuring, and returns the samples.
    pub(crate) fn end(mut self) -> MachineLoad {
        self.ended.store(true, Ordering::Relaxed);
        let strokes = self.thread.take().and_then(|thread| thread.join().ok());
        MachineLoad(strokes.unwrap_or_default())
    }
}

impl MachineLoad {
    /// Returns how many times longer work took than on an idle machine, in the median second; at least 1.
    pub(crate) fn slowdown(&self) -> f64 {
        let mut all: Vec<f64> = self.0.chunks(WINDOW).map(slowdown).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(1.0)
    }

    /// Returns the spans in which the machine was so busy that jobs may be later than this bound, in µs.
    pub(crate) fn busy(&self, bound: u64) -> Vec<Span> {
        let usual = self.slowdown();
        let is_busy = |window: &&[LoadSample]| {
            let slowest = window.iter().map(|stroke| micros(stroke.write_time)).max();
            slowdown(window) > usual * BUSY_TIMES || slowest.unwrap_or_default() > bound / BUSY_PART
        };
        let windows = self.0.chunks(WINDOW).filter(is_busy);
        let spans = windows.filter_map(|window| {
            let (first, last) = (window.first()?, window.last()?);
            Some(Span {
                from: first.at - micros(first.write_time + INTERVAL),
                to: last.at + BUSY_AFTER,
            })
        });
        merge_spans(spans)
    }

    /// Returns the longest stall of this process.
    pub(crate) fn standstill(&self) -> Duration {
        let took = self.0.iter().map(|stroke| stroke.write_time);
        took.max().unwrap_or_default()
    }
}

fn slowdown(window: &[LoadSample]) -> f64 {
    let worked: u64 = window.iter().map(|stroke| stroke.times.run_ns).sum();
    let waited: u64 = window.iter().map(|stroke| stroke.times.waited_ns).sum();
    let worked = worked.max(1) as f64;
    (worked + waited as f64) / worked
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Drop for MachineMonitor {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn measure(mut file: File, ended: &AtomicBool) -> Vec<LoadSample> {
    let mut strokes = Vec::new();
    // Earlier times do not count.
    let mut threads = ThreadTimes(threads_now());
    while !ended.load(Ordering::Relaxed) {
        let due_at = Instant::now() + INTERVAL;
        #[expect(clippy::disallowed_methods, reason = "a separate thread")]
        std::thread::sleep(INTERVAL);
        // A failed write, such as on a full disk, is a sample too.
        let _ = file.write_all(b".").and_then(|()| file.sync_data());
        strokes.push(LoadSample {
            at: now(),
            write_time: due_at.elapsed(),
            times: threads.difference(threads_now()),
        });
    }
    strokes
}

/// Returns the times of this process's threads, by thread id. Without `/proc/self/task` the machine counts as idle.
fn threads_now() -> HashMap<String, CpuTimes> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let times = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let mut fields = text.split_whitespace().map(str::parse);
        let (Some(Ok(worked_ns)), Some(Ok(waited_ns))) = (fields.next(), fields.next()) else {
            return None;
        };
        let id = task.file_name().to_string_lossy().into_owned();
        Some((
            id,
            CpuTimes {
                run_ns: worked_ns,
                waited_ns,
            },
        ))
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(worked_ns: u64, waited_ns: u64) -> CpuTimes {
        CpuTimes {
            run_ns: worked_ns,
            waited_ns,
        }
    }

    fn alive(threads: &[(&str, CpuTimes)]) -> HashMap<String, CpuTimes> {
        let threads = threads.iter();
        threads
            .map(|(id, times)| ((*id).to_owned(), *times))
            .collect()
    }

    #[test]
    fn a_thread_that_has_ended_is_not_forgotten() {
        let mut threads = ThreadTimes(alive(&[("1", times(100, 900)), ("2", times(5000, 5000))]));
        let now = alive(&[("1", times(110, 930)), ("2", times(5010, 5030))]);
        assert_eq!(threads.difference(now), times(20, 60));
        // The second thread has ended; another one has started.
        let now = alive(&[("1", times(120, 960)), ("3", times(10, 30))]);
        assert_eq!(threads.difference(now), times(20, 60));
    }

    #[test]
    fn the_times_of_threads_are_read() {
        let me = std::process::id().to_string();
        let busy = Instant::now();
        while busy.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let now = threads_now();
        assert!(now.contains_key(&me), "{now:?}");
        assert!(now.values().any(|times| times.run_ns > 0), "{now:?}");
    }

    /// 20 s in which work took `usual` times longer, except for one second after the first ten.
    fn load(usual: u64, in_that_second: u64, took_ms: u64) -> MachineLoad {
        let strokes = (0..100).map(|number| {
            let is_then = (50..55).contains(&number);
            let slower = if is_then { in_that_second } else { usual };
            LoadSample {
                at: 1_000_000_000 + number * 200_000,
                write_time: Duration::from_millis(if is_then { took_ms } else { 2 }),
                times: times(100, 100 * (slower - 1)),
            }
        });
        MachineLoad(strokes.collect())
    }

    #[test]
    fn a_busy_second_is_excused_and_a_busy_machine_is_not() {
        const BOUND: u64 = 300_000;
        assert_eq!(load(2, 2, 2).busy(BOUND), []);
        assert_eq!(load(4, 4, 2).busy(BOUND), []);
        assert!((load(4, 4, 2).slowdown() - 4.0).abs() < 1e-9);
        for busy in [load(2, 6, 2), load(2, 2, 70)] {
            assert!((busy.slowdown() - 2.0).abs() < 1e-9);
            let spans = busy.busy(BOUND);
            let [Span { from, to }] = spans.as_slice() else {
                panic!("{spans:?}");
            };
            assert!(*from < 1_010_000_000 && *to > 1_010_800_000, "{spans:?}");
            assert!(to - from < 1_600_000, "{spans:?}");
        }
        assert_eq!(load(2, 2, 70).standstill(), Duration::from_millis(70));
    }
}
