//! One server, or two in turns.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::report::Report;
use crate::scenarios::Scenario;
use crate::server::{Server, ServerOptions};

/// All that one call of this program found out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// One report a run, in their order: A B A B … with two servers.
    pub reports: Vec<Report>,
    /// What B is to A, with two servers.
    pub comparisons: Vec<Comparison>,
}

/// One figure of two servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Comparison {
    /// The figure's name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The median of A's rounds.
    pub a: f64,
    /// The median of B's rounds.
    pub b: f64,
    /// The median of B / A, round by round.
    pub ratio: f64,
    /// The smallest B / A.
    pub ratio_least: f64,
    /// The largest B / A.
    pub ratio_most: f64,
}

/// Runs a scenario `rounds` times against a server, or against two in turns.
///
/// # Errors
/// A server is not there, or answers what a run cannot go on after. A job that is lost, doubled or early is
/// no error here: see [`Outcome::counts`].
pub async fn run(
    scenario: &Scenario,
    a: &ServerOptions,
    b: Option<&ServerOptions>,
    rounds: usize,
    is_quiet: bool,
) -> Result<Outcome, Error> {
    let a = Server::open(a).await?;
    let b = match b {
        Some(b) => Some(Server::open(b).await?),
        None => None,
    };
    let mut reports = Vec::new();
    let mut pairs = Vec::new();
    for _ in 0..rounds {
        let of_a = scenario.run(&a, is_quiet).await?;
        reports.push(of_a.clone());
        if let Some(b) = &b {
            let of_b = scenario.run(b, is_quiet).await?;
            reports.push(of_b.clone());
            pairs.push((of_a, of_b));
        }
    }
    Ok(Outcome {
        reports,
        comparisons: compare(&pairs),
    })
}

impl Outcome {
    /// Whether the figures count: no job was lost, doubled or early in any run.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.reports.iter().all(Report::counts)
    }
}

fn compare(pairs: &[(Report, Report)]) -> Vec<Comparison> {
    let Some((first, _)) = pairs.first() else {
        return Vec::new();
    };
    let compared = first.figures.iter().filter_map(|figure| {
        let values: Vec<(f64, f64)> = pairs
            .iter()
            .filter_map(|(a, b)| a.value(&figure.name).zip(b.value(&figure.name)))
            .collect();
        let ratios = sorted(
            values
                .iter()
                .map(|(a, b)| b / a)
                .filter(|ratio| ratio.is_finite()),
        );
        Some(Comparison {
            name: figure.name.clone(),
            unit: figure.unit.clone(),
            a: median(&sorted(values.iter().map(|(a, _)| *a)))?,
            b: median(&sorted(values.iter().map(|(_, b)| *b)))?,
            ratio: median(&ratios)?,
            ratio_least: *ratios.first()?,
            ratio_most: *ratios.last()?,
        })
    });
    compared.collect()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    fn report(value: f64) -> Report {
        Report {
            scenario: "publish".to_owned(),
            server: String::new(),
            load: String::new(),
            parameters: std::collections::BTreeMap::new(),
            figures: vec![Figure {
                name: "publish".to_owned(),
                value,
                unit: "jobs/s".to_owned(),
                goal: None,
            }],
            series: Vec::new(),
            problems: Vec::new(),
            remarks: Vec::new(),
            load_average: 0.0,
        }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let pairs = [(10.0, 20.0), (20.0, 20.0), (5.0, 15.0)].map(|(a, b)| (report(a), report(b)));
        let compared = compare(&pairs);
        let found = &compared[0];
        assert_eq!((found.a, found.b), (10.0, 20.0));
        assert_eq!(
            (found.ratio_least, found.ratio, found.ratio_most),
            (1.0, 2.0, 3.0)
        );
        assert!(compare(&[]).is_empty());
    }
}
