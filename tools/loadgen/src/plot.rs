//! Draws curves as SVG files.

use std::path::{Path, PathBuf};

use plotters::prelude::*;

use crate::error::LoadgenError;
use crate::report::{Curve, ScenarioReport};

const SIZE: (u32, u32) = (720, 400);
pub(crate) const FONT: (&str, u32) = ("sans-serif", 18);

/// Draws every curve of the reports into `folder`, one file per curve name, and creates the folder
/// if needed. Returns the files.
///
/// # Errors
/// The folder cannot be written.
pub fn plot(reports: &[ScenarioReport], folder: &Path) -> Result<Vec<PathBuf>, LoadgenError> {
    std::fs::create_dir_all(folder).map_err(LoadgenError::io(folder.display().to_string()))?;
    let series = reports.iter().flat_map(|report| &report.series);
    let mut files = Vec::new();
    for series in series.filter(|series| series.points.len() > 1) {
        let name: String = series
            .name
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() {
                    letter
                } else {
                    '-'
                }
            })
            .collect();
        let file = folder.join(format!("{name}.svg"));
        draw(series, &file).map_err(drawing_failed(&file))?;
        files.push(file);
    }
    Ok(files)
}

/// The error for a file that cannot be drawn.
pub(crate) fn drawing_failed(
    file: &Path,
) -> impl FnOnce(Box<dyn std::error::Error>) -> LoadgenError {
    let failed = LoadgenError::io(file.display().to_string());
    |error| failed(std::io::Error::other(error.to_string()))
}

fn draw(series: &Curve, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let most =
        |values: &mut dyn Iterator<Item = f64>| values.fold(f64::MIN_POSITIVE, f64::max) * 1.05;
    let width = most(&mut series.points.iter().map(|(x, _)| *x));
    let height = most(&mut series.points.iter().map(|(_, y)| *y));
    let mut chart = ChartBuilder::on(&area)
        .caption(&series.name, FONT)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..width, 0.0..height)?;
    chart
        .configure_mesh()
        .x_desc(&series.x)
        .y_desc(&series.y)
        .draw()?;
    chart.draw_series(LineSeries::new(series.points.iter().copied(), &BLUE))?;
    area.present()?;
    Ok(())
}
