//! The findings of the checks.

use std::fmt::Write;

use serde::Serialize;
use tidegate_core::visible_text::escape;

use crate::failure::CommandFailure;
use crate::output::CommandOutput;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DiagnosisResult {
    Ok,
    Problem,
    /// It needs something that was not given, or an earlier check has failed.
    Skipped,
}

/// One check, and its finding.
#[derive(Debug, Serialize)]
pub(super) struct CheckRow {
    pub(super) check: &'static str,
    pub(super) result: DiagnosisResult,
    pub(super) detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// All checks, in their order.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DoctorReport {
    /// How many checks found a problem.
    pub(crate) problems: usize,
    checks: Vec<CheckRow>,
}

impl DoctorReport {
    pub(super) fn ok(&mut self, check: &'static str, detail: impl Into<String>) {
        self.add(check, DiagnosisResult::Ok, detail.into(), None);
    }

    pub(super) fn skipped(&mut self, check: &'static str, detail: impl Into<String>) {
        self.add(check, DiagnosisResult::Skipped, detail.into(), None);
    }

    pub(super) fn problem(
        &mut self,
        check: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.problems += 1;
        let remedy = Some(remedy.into());
        self.add(check, DiagnosisResult::Problem, detail.into(), remedy);
    }

    fn add(
        &mut self,
        check: &'static str,
        result: DiagnosisResult,
        detail: String,
        remedy: Option<String>,
    ) {
        self.checks.push(CheckRow {
            check,
            result,
            detail,
            remedy,
        });
    }

    /// The report as the command prints it.
    ///
    /// # Errors
    /// It cannot be encoded as JSON.
    pub(crate) fn output(&self, as_json: bool) -> Result<CommandOutput, CommandFailure> {
        match as_json {
            true => Ok(CommandOutput::answer(self)?),
            false => Ok(CommandOutput::Bytes(self.text().into_bytes())),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for row in &self.checks {
            let result = match row.result {
                DiagnosisResult::Ok => "ok",
                DiagnosisResult::Problem => "PROBLEM",
                DiagnosisResult::Skipped => "skipped",
            };
            let _ = writeln!(text, "{result:<8} {:<9} {}", row.check, escape(&row.detail));
            if let Some(remedy) = &row.remedy {
                let _ = writeln!(text, "{:<8} {:<9} Remedy: {}", "", "", escape(remedy));
            }
        }
        let _ = match self.problems {
            0 => writeln!(text, "\nNo problems."),
            1 => writeln!(text, "\n1 problem."),
            number => writeln!(text, "\n{number} problems."),
        };
        text
    }
}
