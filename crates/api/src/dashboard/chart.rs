//! Charts of the last minutes, as SVG.

use std::time::Duration;

use maud::{Markup, html};
use tokio::time::Instant;

use super::history::{ChartSample, SPAN};
use super::text;

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 80.0;
/// Without a sample for so long, a line is interrupted: no page was open.
const GAP: Duration = Duration::from_secs(15);

/// A line of a chart: its name, and its value at each sample if it has one.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) values: Vec<Option<f64>>,
}

/// How values are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    Jobs,
    JobsPerSecond,
    Milliseconds,
}

impl Unit {
    fn write(self, value: f64) -> String {
        let whole = value.max(0.0).round() as u64;
        match self {
            Self::Jobs => text::number(whole),
            Self::JobsPerSecond => format!("{}/s", text::number(whole)),
            Self::Milliseconds => text::duration(whole),
        }
    }
}

/// The increase of a counter per second at each sample, averaged over the five samples before it.
pub(super) fn rates(
    samples: &[ChartSample],
    counter: impl Fn(&ChartSample) -> u64,
) -> Vec<Option<f64>> {
    const SAMPLES: usize = 5;
    let rate = |index: usize| {
        let now = &samples[index];
        let before = samples.get(index.checked_sub(SAMPLES)?..index)?;
        let before = before
            .iter()
            .find(|before| now.at.saturating_duration_since(before.at) <= GAP)?;
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
        let increase = counter(now).checked_sub(counter(before))?;
        (seconds > 0.0).then(|| increase as f64 / seconds)
    };
    (0..samples.len()).map(rate).collect()
}

/// A chart of lines with a common scale, from 0 to their highest value.
pub(super) fn chart(
    title: &str,
    unit: Unit,
    samples: &[ChartSample],
    lines: &[Line<'_>],
) -> Markup {
    let values = lines.iter().flat_map(|line| line.values.iter().flatten());
    let highest = values.copied().fold(0.0, f64::max);
    let scale = if highest > 0.0 { HEIGHT / highest } else { 0.0 };
    html! {
        figure.chart {
            figcaption {
                strong { (title) }
                @for (number, line) in lines.iter().enumerate() {
                    @let latest = line.values.last().copied().flatten();
                    span.legend {
                        span class={ "swatch line-" (number) } {}
                        (line.name) " "
                        @match latest { Some(value) => { (unit.write(value)) } None => "–" }
                    }
                }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                aria-label={ (title) ", the last 5 minutes, at most " (unit.write(highest)) } {
                @for (number, line) in lines.iter().enumerate() {
                    @for points in polylines(samples, &line.values, scale) {
                        polyline class={ "line-" (number) } points=(points) {}
                    }
                }
            }
            p.scale { "0 to " (unit.write(highest)) ", 5 minutes" }
        }
    }
}

/// The points of a line, in pieces without gaps.
fn polylines(samples: &[ChartSample], values: &[Option<f64>], scale: f64) -> Vec<String> {
    let Some(last) = samples.last() else {
        return vec![];
    };
    let mut pieces: Vec<String> = Vec::new();
    let mut before: Option<Instant> = None;
    for (sample, value) in samples.iter().zip(values) {
        let Some(value) = value else {
            before = None;
            continue;
        };
        let age = last.at.saturating_duration_since(sample.at);
        let x = WIDTH * (1.0 - age.as_secs_f64() / SPAN.as_secs_f64());
        let point = format!("{x:.1},{:.1} ", HEIGHT - value * scale);
        let continues =
            before.is_some_and(|before| sample.at.saturating_duration_since(before) <= GAP);
        match pieces.last_mut().filter(|_| continues) {
            Some(piece) => piece.push_str(&point),
            None => pieces.push(point),
        }
        before = Some(sample.at);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use tidegate_engine::{JobTraffic, QueueFigures};

    use super::super::history::Figures;
    use super::*;

    fn samples(seconds: &[u64]) -> Vec<ChartSample> {
        let begin = Instant::now();
        let sample = |second: &u64| ChartSample {
            at: begin + Duration::from_secs(*second),
            figures: Figures {
                sizes: QueueFigures::default(),
                overdue_ms: 0,
                traffic: JobTraffic {
                    published: 10 * second,
                    ..JobTraffic::default()
                },
            },
        };
        seconds.iter().map(sample).collect()
    }

    #[test]
    fn a_rate_is_an_increase_per_second_and_needs_samples() {
        let rates = rates(&samples(&[0, 1, 2, 3, 4, 5, 6]), |sample| {
            sample.figures.traffic.published
        });
        assert_eq!(rates[..5], [None; 5]);
        assert_eq!(rates[5..], [Some(10.0), Some(10.0)]);
    }

    #[test]
    fn a_line_is_interrupted_where_no_page_was_open() {
        let samples = samples(&[0, 1, 100, 101, 102]);
        let values = vec![Some(1.0), Some(2.0), Some(2.0), None, Some(4.0)];
        let pieces = polylines(&samples, &values, HEIGHT / 4.0);
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[2], "320.0,0.0 ");
        assert!(pieces[0].ends_with(",40.0 "), "{pieces:?}");
    }

    #[test]
    fn a_chart_without_values_is_empty_and_has_a_name() {
        let line = Line {
            name: "<b>",
            values: vec![],
        };
        let html = chart("Rate", Unit::JobsPerSecond, &[], &[line]).into_string();
        assert!(html.contains("at most 0/s"), "{html}");
        assert!(
            html.contains("&lt;b&gt;") && !html.contains("<polyline"),
            "{html}"
        );
    }
}
