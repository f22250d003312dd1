//! How slow the machine is: where others want its processors and its disk, everything takes longer, and that is
//! nobody's fault.
//!
//! A thread writes a byte to the disk five times a second, as Redis does, and notes how late it is done. And the system
//! tells how long the threads of this process, which fare as the others of a run do, waited for a processor. It is asked
//! as often: whatever a thread has done is forgotten when it ends, and threads end with other runs of the process.
//!
//! A second in which work took far longer than in most others, or in which the byte was far too late, does not count for
//! lateness: the bound is made for the usual second, so that it stays tight.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::history::{Moment, Span, joined, now};

const INTERVAL: Duration = Duration::from_millis(200);
/// How many strokes of the yardstick are looked at together: 1 s.
const WINDOW: usize = 5;
/// A second in which work takes so many times longer than in the usual one is a busy one.
const BUSY_TIMES: f64 = 2.5;
/// A stroke that takes longer than this part of the bound makes a second busy. From its due time to its consumer a job is
/// written to disk twice, and some processes are woken.
const BUSY_PART: u64 = 5;
/// What is late because of a busy second may come this long after it, in µs.
const BUSY_AFTER: u64 = 200_000;

/// Measures the machine until it is dropped.
#[derive(Debug)]
pub(crate) struct Yardstick {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Stroke>>>,
}

/// One stroke of the yardstick, and what threads did since the one before.
#[derive(Debug, Clone, Copy)]
struct Stroke {
    /// When it was over.
    at: Moment,
    took: Duration,
    times: Times,
}

/// How long threads have worked, and how long they were ready to and no processor was free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    worked_ns: u64,
    waited_ns: u64,
}

/// The times of threads at the last look.
#[derive(Debug, Default)]
struct Threads(HashMap<String, Times>);

impl Threads {
    /// What has come since the last look. A thread that is new began since then.
    fn look(&mut self, now: HashMap<String, Times>) -> Times {
        let mut all = Times::default();
        for (thread, times) in &now {
            let before = self.0.get(thread).copied().unwrap_or_default();
            all.worked_ns += times.worked_ns.saturating_sub(before.worked_ns);
            all.waited_ns += times.waited_ns.saturating_sub(before.waited_ns);
        }
        self.0 = now;
        all
    }
}

/// What was measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pace(Vec<Stroke>);

impl Yardstick {
    /// Begins to measure the disk of this folder.
    pub(crate) fn start(folder: &Path) -> io::Result<Self> {
        let file = File::create(folder.join("yardstick"))?;
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ended);
        let thread = std::thread::spawn(move || measure(file, &is_over));
        Ok(Self {
            ended,
            thread: Some(thread),
        })
    }

    /// Ends the measuring.
    pub(crate) fn end(mut self) -> Pace {
        self.ended.store(true, Ordering::Relaxed);
        let strokes = self.thread.take().and_then(|thread| thread.join().ok());
        Pace(strokes.unwrap_or_default())
    }
}

impl Pace {
    /// How many times longer than on an idle machine work took in the usual second; at least 1.
    pub(crate) fn slowdown(&self) -> f64 {
        let mut all: Vec<f64> = self.0.chunks(WINDOW).map(slowdown).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(1.0)
    }

    /// When the machine was so busy that jobs may be later than this bound, in µs.
    pub(crate) fn busy(&self, bound: u64) -> Vec<Span> {
        let usual = self.slowdown();
        let is_busy = |window: &&[Stroke]| {
            let slowest = window.iter().map(|stroke| micros(stroke.took)).max();
            slowdown(window) > usual * BUSY_TIMES || slowest.unwrap_or_default() > bound / BUSY_PART
        };
        let windows = self.0.chunks(WINDOW).filter(is_busy);
        let spans = windows.filter_map(|window| {
            let (first, last) = (window.first()?, window.last()?);
            Some(Span {
                from: first.at - micros(first.took + INTERVAL),
                to: last.at + BUSY_AFTER,
            })
        });
        joined(spans)
    }

    /// The longest time in which this process did nothing.
    pub(crate) fn standstill(&self) -> Duration {
        let took = self.0.iter().map(|stroke| stroke.took);
        took.max().unwrap_or_default()
    }
}

fn slowdown(window: &[Stroke]) -> f64 {
    let worked: u64 = window.iter().map(|stroke| stroke.times.worked_ns).sum();
    let waited: u64 = window.iter().map(|stroke| stroke.times.waited_ns).sum();
    let worked = worked.max(1) as f64;
    (worked + waited as f64) / worked
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Drop for Yardstick {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn measure(mut file: File, ended: &AtomicBool) -> Vec<Stroke> {
    let mut strokes = Vec::new();
    // What was before does not count.
    let mut threads = Threads(threads_now());
    while !ended.load(Ordering::Relaxed) {
        let due_at = Instant::now() + INTERVAL;
        std::thread::sleep(INTERVAL);
        // A disk that is full is a stroke as well.
        let _ = file.write_all(b".").and_then(|()| file.sync_data());
        strokes.push(Stroke {
            at: now(),
            took: due_at.elapsed(),
            times: threads.look(threads_now()),
        });
    }
    strokes
}

/// The threads of this process that are alive, by their ids. Where the system does not tell, the machine counts as idle.
fn threads_now() -> HashMap<String, Times> {
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
            Times {
                worked_ns,
                waited_ns,
            },
        ))
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(worked_ns: u64, waited_ns: u64) -> Times {
        Times {
            worked_ns,
            waited_ns,
        }
    }

    fn alive(threads: &[(&str, Times)]) -> HashMap<String, Times> {
        let threads = threads.iter();
        threads
            .map(|(id, times)| ((*id).to_owned(), *times))
            .collect()
    }

    #[test]
    fn a_thread_that_has_ended_is_not_forgotten() {
        let mut threads = Threads(alive(&[("1", times(100, 900)), ("2", times(5000, 5000))]));
        let now = alive(&[("1", times(110, 930)), ("2", times(5010, 5030))]);
        assert_eq!(threads.look(now), times(20, 60));
        // The run of the second one is over; another one has begun.
        let now = alive(&[("1", times(120, 960)), ("3", times(10, 30))]);
        assert_eq!(threads.look(now), times(20, 60));
    }

    #[test]
    fn the_system_tells_what_threads_do() {
        let me = std::process::id().to_string();
        let busy = Instant::now();
        while busy.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let now = threads_now();
        assert!(now.contains_key(&me), "{now:?}");
        assert!(now.values().any(|times| times.worked_ns > 0), "{now:?}");
    }

    /// 20 s in which work took so many times longer, but for a second from the tenth on.
    fn pace(usual: u64, in_that_second: u64, took_ms: u64) -> Pace {
        let strokes = (0..100).map(|number| {
            let is_then = (50..55).contains(&number);
            let slower = if is_then { in_that_second } else { usual };
            Stroke {
                at: 1_000_000_000 + number * 200_000,
                took: Duration::from_millis(if is_then { took_ms } else { 2 }),
                times: times(100, 100 * (slower - 1)),
            }
        });
        Pace(strokes.collect())
    }

    #[test]
    fn a_busy_second_is_excused_and_a_busy_machine_is_not() {
        const BOUND: u64 = 300_000;
        assert_eq!(pace(2, 2, 2).busy(BOUND), []);
        assert_eq!(pace(4, 4, 2).busy(BOUND), []);
        assert!((pace(4, 4, 2).slowdown() - 4.0).abs() < 1e-9);
        for busy in [pace(2, 6, 2), pace(2, 2, 70)] {
            assert!((busy.slowdown() - 2.0).abs() < 1e-9);
            let spans = busy.busy(BOUND);
            let [Span { from, to }] = spans.as_slice() else {
                panic!("{spans:?}");
            };
            assert!(*from < 1_010_000_000 && *to > 1_010_800_000, "{spans:?}");
            assert!(to - from < 1_600_000, "{spans:?}");
        }
        assert_eq!(pace(2, 2, 70).standstill(), Duration::from_millis(70));
    }
}
