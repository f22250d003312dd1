//! Measures one server, or two alternately.

use serde::{Deserialize, Serialize};

use crate::error::LoadgenError;
use crate::report::ScenarioReport;
use crate::scenarios::Scenario;
use crate::server::{ServerOptions, TargetServer};
use crate::spread::Spread;

/// Results of one call of this program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadgenResults {
    /// One report per run, in order: A B A B … with two servers.
    pub reports: Vec<ScenarioReport>,
    /// B relative to A, with two servers.
    pub comparisons: Vec<Comparison>,
}

/// One figure, compared between two servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Comparison {
    /// The figure's name.
    pub name: String,
    pub unit: String,
    /// The median over A's rounds.
    pub a: f64,
    /// The median over B's rounds.
    pub b: f64,
    /// The median of the ratios B / A of the rounds.
    pub ratio: f64,
    /// The smallest ratio B / A.
    pub ratio_least: f64,
    /// The largest ratio B / A.
    pub ratio_most: f64,
}

/// Runs a scenario `rounds` times against a server, or against two servers alternately.
///
/// # Errors
/// A server is unreachable, or gives an answer after which a run cannot continue. A lost, duplicate or
/// early job is not an error: see [`LoadgenResults::is_valid`].
pub async fn run(
    scenario: &Scenario,
    a: &ServerOptions,
    b: Option<&ServerOptions>,
    rounds: usize,
    is_quiet: bool,
) -> Result<LoadgenResults, LoadgenError> {
    let a = TargetServer::open(a, scenario.wire(a.wire)?).await?;
    let b = match b {
        Some(b) => Some(TargetServer::open(b, scenario.wire(b.wire)?).await?),
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
    Ok(LoadgenResults {
        reports,
        comparisons: compare(&pairs),
    })
}

impl LoadgenResults {
    /// Whether the figures are valid: no run has problems, such as a lost, duplicate or early job.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.reports.iter().all(ScenarioReport::is_valid)
    }
}

fn compare(pairs: &[(ScenarioReport, ScenarioReport)]) -> Vec<Comparison> {
    let Some((first, _)) = pairs.first() else {
        return Vec::new();
    };
    let compared = first.figures.iter().filter_map(|figure| {
        let values: Vec<(f64, f64)> = pairs
            .iter()
            .filter_map(|(a, b)| a.value(&figure.name).zip(b.value(&figure.name)))
            .collect();
        let ratio = Spread::of(values.iter().map(|(a, b)| b / a))?;
        Some(Comparison {
            name: figure.name.clone(),
            unit: figure.unit.clone(),
            a: Spread::of(values.iter().map(|(a, _)| *a))?.median,
            b: Spread::of(values.iter().map(|(_, b)| *b))?.median,
            ratio: ratio.median,
            ratio_least: ratio.least,
            ratio_most: ratio.most,
        })
    });
    compared.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    fn report(value: f64) -> ScenarioReport {
        ScenarioReport {
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
