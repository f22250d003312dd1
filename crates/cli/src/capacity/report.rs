//! The plan as text.

use std::fmt::Write;

use super::plan::{CapacityPlan, DeploymentPlan};

/// The plan for people: lines of at most 120 characters.
pub(super) fn text(plan: &CapacityPlan) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, plan);
    text
}

fn write(text: &mut String, plan: &CapacityPlan) -> std::fmt::Result {
    writeln!(
        text,
        "{} jobs/s of {} bytes, {} stored: {} bytes of Redis each, {} in all; {} cores of Redis in use, {} MiB/s to and from it",
        grouped(plan.jobs_per_second),
        grouped(plan.bytes),
        grouped(plan.pending),
        plan.job_bytes,
        gib(plan.data_gib),
        short(plan.redis_cores),
        short(plan.network_mib_per_second),
    )?;
    if plan.cold_percent > 0 {
        writeln!(
            text,
            "cold tier: {} % of the stored jobs, {} bytes of Redis each; {} in the object store",
            plan.cold_percent,
            plan.cold_job_bytes,
            gib(plan.object_store_gib)
        )?;
    }
    for (name, daemon) in [("tidegate-api", &plan.api), ("tidegate-pumpd", &plan.pump)] {
        let (processes, cores) = (daemon.processes, short(daemon.cores));
        let memory = gib(daemon.process_gib);
        writeln!(
            text,
            "{name}: {processes} processes, {cores} cores in all, {memory} of memory each"
        )?;
    }
    writeln!(
        text,
        "\nRedis, with at most {} % of a core in use:",
        plan.busy_percent
    )?;
    for deployment in &plan.deployments {
        write_deployment(text, deployment)?;
    }
    if let Some(deployment) = plan.deployments.iter().find(|it| it.exceeds.is_empty()) {
        writeln!(
            text,
            "\nWhat breaks first with {}, if all grows alike:",
            deployment.name
        )?;
    }
    for limit in &plan.limits {
        writeln!(
            text,
            "  at {} times this load {}; then {}",
            short(limit.times),
            limit.what,
            limit.then
        )?;
    }
    Ok(())
}

fn write_deployment(text: &mut String, it: &DeploymentPlan) -> std::fmt::Result {
    if !it.exceeds.is_empty() {
        return writeln!(
            text,
            "  {}: too much for {}",
            it.name,
            it.exceeds.join(" and ")
        );
    }
    match it.servers {
        1 => writeln!(text, "  {}:", it.name)?,
        servers => writeln!(
            text,
            "  {}: {servers} servers, {} of them primaries",
            it.name, it.primaries
        )?,
    }
    writeln!(
        text,
        "    each: maxmemory {}, a machine of {}, a disk of {}; primaries use {} % of a core",
        gib(it.maxmemory_gib),
        gib(it.machine_gib),
        gib(it.disk_gib),
        short(it.core_percent),
    )?;
    if it.primaries > 1 {
        writeln!(
            text,
            "    buckets = {} from the first start on; {} lanes for a queue that gets all the load",
            it.buckets, it.lanes,
        )?;
    }
    Ok(())
}

fn gib(value: f64) -> String {
    match value {
        small if small < 1.0 => format!("{} MiB", short(value * 1024.0)),
        _ => format!("{} GiB", short(value)),
    }
}

/// Two digits at least; the costs are not known better.
fn short(value: f64) -> String {
    match value {
        small if small < 0.995 => format!("{value:.2}"),
        small if small < 9.95 => format!("{value:.1}"),
        _ => grouped(value.ceil() as u64),
    }
}

/// Groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{grouped, short};

    #[test]
    fn numbers_are_short() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(10_000_000_000), "10 000 000 000");
        let shown = [0.004, 0.5, 0.999, 1.25, 9.96, 1234.5].map(short);
        assert_eq!(shown, ["0.00", "0.50", "1.0", "1.2", "10", "1 235"]);
    }
}
