//! How slow the machine is: where others want its processors and its disk, everything takes longer, and that is
//! nobody's fault.
//!
//! A thread writes a byte to the disk five times a second, as Redis does, and notes how late it is done. And the system
//! tells how long the threads of this process, which fare as the others of a run do, waited for a processor.

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
    worked: u64,
    waited: u64,
    thread: Option<JoinHandle<Vec<Duration>>>,
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
        let (worked, waited) = processor_time();
        Ok(Self {
            ended,
            worked,
            waited,
            thread: Some(thread),
        })
    }

    /// Ends the measuring.
    pub(crate) fn end(mut self) -> Pace {
        self.ended.store(true, Ordering::Relaxed);
        let strokes = self.thread.take().and_then(|thread| thread.join().ok());
        let (worked, waited) = processor_time();
        let worked = worked.saturating_sub(self.worked).max(1) as f64;
        let waited = waited.saturating_sub(self.waited) as f64;
        pace(&strokes.unwrap_or_default(), (worked + waited) / worked)
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

fn measure(mut file: File, ended: &AtomicBool) -> Vec<Duration> {
    let mut strokes = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let due_at = Instant::now() + INTERVAL;
        std::thread::sleep(INTERVAL);
        // A disk that is full is a stroke as well.
        let _ = file.write_all(b".").and_then(|()| file.sync_data());
        strokes.push(due_at.elapsed());
    }
    strokes
}

/// How long the threads of this process have worked, and how long they were ready to and no processor was free, in ns. Where
/// the system does not tell, the machine counts as idle.
fn processor_time() -> (u64, u64) {
    let (mut worked, mut waited) = (0, 0);
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    for task in tasks.flatten() {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let mut fields = text
            .split_whitespace()
            .filter_map(|field| field.parse::<u64>().ok());
        worked += fields.next().unwrap_or_default();
        waited += fields.next().unwrap_or_default();
    }
    (worked, waited)
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
