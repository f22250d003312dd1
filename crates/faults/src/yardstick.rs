//! How slow the machine is: where others want its processors and its disk, everything takes longer, and that is
//! nobody's fault.
//!
//! A thread writes a byte to the disk five times a second, as Redis does, and notes how late it is done. And the system
//! tells how long the threads of this process, which fare as the others of a run do, waited for a processor. It is asked
//! as often: whatever a thread has done is forgotten when it ends, and threads end with other runs of the process.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How late a job may be where nothing excuses it, in µs, on a machine with no other work; usually it is some ms.
const BOUND: u64 = 3_000_000;
/// How many strokes of the yardstick come on top. From its due time to its consumer a job is written to disk twice, behind
/// what is under way, and some processes are woken.
const BOUND_STROKES: u64 = 20;
const INTERVAL: Duration = Duration::from_millis(200);
/// How many strokes are looked at together: 5 s.
const WINDOW: usize = 25;

/// Measures the machine until it is dropped.
#[derive(Debug)]
pub(crate) struct Yardstick {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Measured>>,
}

/// All that is noted.
#[derive(Debug, Default)]
struct Measured {
    strokes: Vec<Duration>,
    threads: Threads,
}

/// How long threads have worked, and how long they were ready to and no processor was free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    worked_ns: u64,
    waited_ns: u64,
}

/// The times of all threads together, of those that have ended too.
#[derive(Debug, Default)]
struct Threads {
    last: HashMap<String, Times>,
    all: Times,
}

impl Threads {
    /// Adds what has come since the last look. A thread that is new began since then.
    fn look(&mut self, now: HashMap<String, Times>) {
        for (thread, times) in &now {
            let before = self.last.get(thread).copied().unwrap_or_default();
            self.all.worked_ns += times.worked_ns.saturating_sub(before.worked_ns);
            self.all.waited_ns += times.waited_ns.saturating_sub(before.waited_ns);
        }
        self.last = now;
    }

    /// How many times longer than on an idle machine work took.
    fn slowdown(&self) -> f64 {
        let worked = self.all.worked_ns.max(1) as f64;
        (worked + self.all.waited_ns as f64) / worked
    }
}

/// What was measured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    /// The usual time of a stroke in the slowest 5 s.
    slowest: Duration,
    /// How many times longer than on an idle machine work took; at least 1.
    slowdown: f64,
    /// The longest time in which this process did nothing.
    pub(crate) standstill: Duration,
}

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
        let measured = self.thread.take().and_then(|thread| thread.join().ok());
        let Measured { strokes, threads } = measured.unwrap_or_default();
        pace(&strokes, threads.slowdown())
    }
}

impl Pace {
    /// How late a job may be where nothing excuses it, in µs.
    pub(crate) fn bound(&self) -> u64 {
        let stroke = u64::try_from(self.slowest.as_micros()).unwrap_or(u64::MAX);
        (BOUND as f64 * self.slowdown) as u64 + BOUND_STROKES * stroke
    }
}

impl Drop for Yardstick {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn measure(mut file: File, ended: &AtomicBool) -> Measured {
    let mut measured = Measured::default();
    // What was before does not count.
    measured.threads.last = threads_now();
    while !ended.load(Ordering::Relaxed) {
        let due_at = Instant::now() + INTERVAL;
        std::thread::sleep(INTERVAL);
        // A disk that is full is a stroke as well.
        let _ = file.write_all(b".").and_then(|()| file.sync_data());
        measured.strokes.push(due_at.elapsed());
        measured.threads.look(threads_now());
    }
    measured
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

fn pace(strokes: &[Duration], slowdown: f64) -> Pace {
    let median = |window: &[Duration]| {
        let mut sorted = window.to_vec();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    Pace {
        slowest: strokes
            .windows(WINDOW)
            .map(median)
            .max()
            .unwrap_or_default(),
        slowdown,
        standstill: strokes.iter().max().copied().unwrap_or_default(),
    }
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
        let mut threads = Threads {
            last: alive(&[("1", times(100, 900)), ("2", times(5000, 5000))]),
            ..Threads::default()
        };
        threads.look(alive(&[("1", times(110, 930)), ("2", times(5010, 5030))]));
        // The run of the second one is over; another one has begun.
        threads.look(alive(&[("1", times(120, 960)), ("3", times(10, 30))]));
        assert_eq!(threads.all, times(40, 120));
        assert!((threads.slowdown() - 4.0).abs() < 1e-9);
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

    #[test]
    fn the_pace_is_that_of_the_slowest_time_and_not_of_one_stroke() {
        let ms = Duration::from_millis;
        let mut strokes = vec![ms(1); 100];
        strokes[50] = ms(900);
        let pace_of_one = pace(&strokes, 1.0);
        assert_eq!(
            (pace_of_one.slowest, pace_of_one.standstill),
            (ms(1), ms(900))
        );
        strokes[60..80].fill(ms(70));
        assert_eq!(pace(&strokes, 1.0).slowest, ms(70));
    }
}
