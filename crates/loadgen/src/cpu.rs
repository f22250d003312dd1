//! CPU time and memory of processes, from /proc: on shared cores wall time alone misleads.

use std::fs;
use std::time::Instant;

use crate::Error;

/// A process that is watched.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    name: String,
    pid: u32,
}

impl Watched {
    /// # Errors
    /// There is no such process on this machine.
    pub(crate) fn new(name: &str, pid: u32) -> Result<Self, Error> {
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

    /// CPU seconds of all its threads since its start, to 10 ms.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, Error> {
        cpu_seconds(&self.pid.to_string())
    }

    /// The physical memory it uses, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<f64, Error> {
        let path = format!("/proc/{}/status", self.pid);
        let text = fs::read_to_string(&path).map_err(Error::io(path))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kib.unwrap_or_default() * 1024.0)
    }
}

/// CPU seconds of a process (`self` is this one).
fn cpu_seconds(process: &str) -> Result<f64, Error> {
    // Fields 14 and 15 of the line; the name in field 2 may hold anything, so counting begins behind it.
    const USER: usize = 11;
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).map_err(Error::io(path))?;
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

/// Measures from its start.
#[derive(Debug)]
pub(crate) struct Meter {
    processes: Vec<(Watched, f64)>,
    own: f64,
    begin: Instant,
}

/// What a stretch of time cost.
#[derive(Debug, Clone)]
pub(crate) struct Usage {
    /// How long it lasted.
    pub(crate) seconds: f64,
    /// CPU seconds of each process.
    pub(crate) processes: Vec<(String, f64)>,
    /// CPU seconds of this program.
    pub(crate) own: f64,
}

impl Meter {
    pub(crate) fn start(processes: &[Watched]) -> Result<Self, Error> {
        let begin = processes.iter().map(|process| {
            let cpu = process.cpu_seconds()?;
            Ok((process.clone(), cpu))
        });
        Ok(Self {
            processes: begin.collect::<Result<_, Error>>()?,
            own: cpu_seconds("self")?,
            begin: Instant::now(),
        })
    }

    /// The cost up to now.
    pub(crate) fn read(&self) -> Result<Usage, Error> {
        let seconds = self.begin.elapsed().as_secs_f64();
        let processes = self
            .processes
            .iter()
            .map(|(process, begin)| Ok((process.name.clone(), process.cpu_seconds()? - begin)));
        Ok(Usage {
            seconds,
            processes: processes.collect::<Result<_, Error>>()?,
            own: cpu_seconds("self")? - self.own,
        })
    }
}

impl Usage {
    /// CPU seconds of the process of this name.
    pub(crate) fn of(&self, name: &str) -> Option<f64> {
        let mut processes = self.processes.iter();
        processes.find_map(|(process, cpu)| (process == name).then_some(*cpu))
    }

    /// CPU seconds of all processes of the server together.
    pub(crate) fn servers(&self) -> f64 {
        self.processes.iter().map(|(_, cpu)| cpu).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_memory() {
        let this = Watched::new("me", std::process::id()).unwrap();
        let meter = Meter::start(std::slice::from_ref(&this)).unwrap();
        let mut number = 1_u64;
        while meter.read().unwrap().own < 0.02 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        let usage = meter.read().unwrap();
        assert!(usage.seconds > 0.0 && usage.servers() >= 0.02);
        assert!(this.resident_bytes().unwrap() > 100_000.0);
        assert!(Watched::new("nobody", u32::MAX).is_err());
    }
}
