//! CPU time and memory of processes, from /proc. On shared cores wall time alone is misleading.

use std::fs;
use std::time::Instant;

use crate::error::LoadgenError;

/// A process whose CPU time and memory are measured.
#[derive(Debug, Clone)]
pub(crate) struct MonitoredProcess {
    name: String,
    pid: u32,
}

impl MonitoredProcess {
    /// # Errors
    /// There is no such process on this machine.
    pub(crate) fn new(name: &str, pid: u32) -> Result<Self, LoadgenError> {
        let watched = Self {
            name: name.to_owned(),
            pid,
        };
        watched.cpu_seconds()?;
        Ok(watched)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// CPU seconds of all its threads since its start, with a resolution of 10 ms.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, LoadgenError> {
        cpu_seconds(&self.pid.to_string())
    }

    /// Resident memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<f64, LoadgenError> {
        let path = format!("/proc/{}/status", self.pid);
        let text = fs::read_to_string(&path).map_err(LoadgenError::io(path))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kib.unwrap_or_default() * 1024.0)
    }
}

/// CPU seconds of a thread of this process since its start.
pub(crate) fn thread_cpu_seconds(thread: rustix::thread::Pid) -> Result<f64, LoadgenError> {
    cpu_seconds(&format!("self/task/{}", thread.as_raw_nonzero()))
}

/// CPU seconds of a process (`self` is this process), or of a thread.
fn cpu_seconds(process: &str) -> Result<f64, LoadgenError> {
    // Fields 14 and 15 of the line, counted from behind the name in field 2, which may contain spaces.
    const USER: usize = 11;
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).map_err(LoadgenError::io(path))?;
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = fields.split_whitespace().skip(USER).take(2);
    let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// The load average of the machine over the last minute.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// Measures CPU time from its start.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    processes: Vec<(MonitoredProcess, f64)>,
    self_seconds: f64,
    begin: Instant,
}

/// CPU time used in a period.
#[derive(Debug, Clone)]
pub(crate) struct CpuUsage {
    /// Length of the period, in seconds.
    pub(crate) seconds: f64,
    /// CPU seconds of each process.
    pub(crate) processes: Vec<(String, f64)>,
    /// CPU seconds of this program.
    pub(crate) self_seconds: f64,
}

impl CpuMeter {
    pub(crate) fn start(processes: &[MonitoredProcess]) -> Result<Self, LoadgenError> {
        let begin = processes.iter().map(|process| {
            let cpu = process.cpu_seconds()?;
            Ok((process.clone(), cpu))
        });
        Ok(Self {
            processes: begin.collect::<Result<_, LoadgenError>>()?,
            self_seconds: cpu_seconds("self")?,
            begin: Instant::now(),
        })
    }

    /// CPU time used since the start.
    pub(crate) fn read(&self) -> Result<CpuUsage, LoadgenError> {
        let seconds = self.begin.elapsed().as_secs_f64();
        let processes = self
            .processes
            .iter()
            .map(|(process, begin)| Ok((process.name.clone(), process.cpu_seconds()? - begin)));
        Ok(CpuUsage {
            seconds,
            processes: processes.collect::<Result<_, LoadgenError>>()?,
            self_seconds: cpu_seconds("self")? - self.self_seconds,
        })
    }
}

impl CpuUsage {
    /// CPU seconds of the process of this name.
    pub(crate) fn of_process(&self, name: &str) -> Option<f64> {
        let mut processes = self.processes.iter();
        processes.find_map(|(process, cpu)| (process == name).then_some(*cpu))
    }

    /// CPU seconds of all processes of the server together.
    pub(crate) fn server_seconds(&self) -> f64 {
        self.processes.iter().map(|(_, cpu)| cpu).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_memory() {
        let this = MonitoredProcess::new("me", std::process::id()).unwrap();
        let meter = CpuMeter::start(std::slice::from_ref(&this)).unwrap();
        let mut number = 1_u64;
        while meter.read().unwrap().self_seconds < 0.02 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        let usage = meter.read().unwrap();
        assert!(usage.seconds > 0.0 && usage.server_seconds() >= 0.02);
        assert!(this.resident_bytes().unwrap() > 100_000.0);
        assert!(MonitoredProcess::new("nobody", u32::MAX).is_err());
    }
}
