//! How fast the machine is: the CPU time of a calculation that is always the same. If lateness rises and this does too,
//! the machine has become slower, as one that shares its processors with others does.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Steps of the calculation: about a millisecond.
const STEPS: u32 = 100_000;
/// Numbers that it reads in an order that cannot be predicted: 512 KiB, so that its time depends on the caches too.
const NUMBERS: u64 = 1 << 16;

/// Returns the CPU time of the calculation.
pub(super) async fn calculation_time() -> Duration {
    let measured = tokio::task::spawn_blocking(|| {
        let begin = cpu_time_of_thread();
        calculate();
        cpu_time_of_thread().saturating_sub(begin)
    });
    measured.await.expect("the calculation does not panic")
}

/// Follows a path through numbers, each of which gives the place of the next (multiplier of Knuth, MMIX).
fn calculate() {
    const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
    let numbers: Vec<u64> = (1..=NUMBERS).map(|n| n.wrapping_mul(MULTIPLIER)).collect();
    let mut at = 1_u64;
    for _ in 0..STEPS {
        let place = (at >> 32) % NUMBERS;
        at = at.wrapping_mul(MULTIPLIER) ^ numbers[place as usize];
    }
    black_box(at);
}

/// Exact, unlike the time in `/proc`, which the kernel counts a few times in ten milliseconds.
fn cpu_time_of_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_calculation_takes_cpu_time() {
        let time = calculation_time().await;
        assert!(time > Duration::from_micros(50), "{time:?}");
    }
}
