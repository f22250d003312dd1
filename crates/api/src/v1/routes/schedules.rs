//! Operations on schedules.

use tidegate_core::Scope;
use tidegate_core::v1::problem::ProblemCode::{
    NamespaceFull, PayloadNotJson, PayloadTooLarge, RunAtOutOfRange, ScheduleNotFound,
    ScheduleUnreadable, VersionMismatch,
};
use utoipa::openapi::HttpMethod::{Delete, Get, Put};

use super::handler::{within_limit, within_share};
use super::headers::AnswerHeader;
use super::operation::{AnswerShape, BodyShape, OperationRow, json, operation};
use super::parameters::{of_list, of_next_runs, of_schedule_change};
use crate::v1::schedules;

const SCHEDULES: &str = "/v1/{namespace}/schedules";
const SCHEDULE: &str = "/v1/{namespace}/schedules/{schedule}";
const NEXT_RUNS: &str = "/v1/{namespace}/schedules/{schedule}/next";

const fn schedule(status: u16, description: &'static str) -> AnswerShape {
    json(status, "ScheduleDetails", description).headers(&[AnswerHeader::ETag])
}

pub(super) const OPERATIONS: [OperationRow; 5] = [
    operation(
        Get,
        SCHEDULES,
        "list_schedules",
        Scope::Read,
        within_share!(schedules::list),
    )
        .about(
            "List schedules",
            "The schedules of the namespace by name. Schedules that cannot be read are left out.",
        )
        .parameters(of_list)
        .answers(&[json(200, "ScheduleListPage", "A page of schedules.")]),
    operation(
        Get,
        SCHEDULE,
        "show_schedule",
        Scope::Read,
        within_limit!(schedules::show),
    )
        .about("Show a schedule", "Its definition, and its next tick.")
        .answers(&[schedule(200, "The schedule.")])
        .problems(&[ScheduleNotFound, ScheduleUnreadable]),
    operation(
        Put,
        SCHEDULE,
        "set_schedule",
        Scope::Admin,
        within_limit!(schedules::set),
    )
        .about(
            "Create or replace a schedule",
            "Fields that are absent have their defaults. A tick that is due stays due if the times of the ticks stay; else the next \
             tick is the first one from now on.",
        )
        .parameters(of_schedule_change)
        .body(BodyShape::Json("Schedule"))
        .answers(&[
            schedule(200, "The schedule, replaced."),
            schedule(201, "The schedule, created."),
        ])
        .problems(&[
            NamespaceFull,
            PayloadNotJson,
            PayloadTooLarge,
            RunAtOutOfRange,
            VersionMismatch,
        ]),
    operation(
        Delete,
        SCHEDULE,
        "delete_schedule",
        Scope::Admin,
        within_limit!(schedules::delete),
    )
        .about(
            "Delete a schedule",
            "It publishes no more jobs. Jobs that it has published stay.",
        )
        .parameters(of_schedule_change)
        .answers(&[json(200, "DeleteAnswer", "The schedule is deleted.")])
        .problems(&[ScheduleNotFound, VersionMismatch]),
    operation(
        Get,
        NEXT_RUNS,
        "list_next_runs",
        Scope::Read,
        within_limit!(schedules::next),
    )
        .about(
            "List next runs",
            "The next ticks of a schedule, by its times alone: missed ticks are not among them.",
        )
        .parameters(of_next_runs)
        .answers(&[json(200, "ScheduleRuns", "The next ticks.")])
        .problems(&[ScheduleNotFound, ScheduleUnreadable]),
];
