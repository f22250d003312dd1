//! Parameters of paths, queries and headers.

use std::collections::BTreeMap;

use tidegate_core::v1::job::{CancelQuery, JobFilter, JobQuery, ResultQuery};
use tidegate_core::v1::publish::JobOptions;
use tidegate_core::v1::queue::ListQuery;
use tidegate_core::v1::schedule::NextRunsQuery;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Ref, Schema, Type};
use utoipa::openapi::{Content, RefOr, Required};

/// The option whose value is an object, which a query and a header have as JSON.
const RETRY: &str = "retry";
/// How long a call waits.
pub(in crate::v1) const WAIT: &str = "wait";

pub(in crate::v1) fn of_path(path: &str) -> impl Iterator<Item = Parameter> {
    let segments = path.split('/');
    let names = segments.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(of_path_segment)
}

fn of_path_segment(name: &str) -> Parameter {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let (schema, description): (RefOr<Schema>, _) = match name {
        "namespace" => (
            Ref::from_schema_name("Namespace").into(),
            "The namespace. The API key must be for it.",
        ),
        "queue" => (
            Ref::from_schema_name("QueueName").into(),
            "The queue. It needs no creation.",
        ),
        "job" => (
            text()
                .pattern(Some("^([0-7][0-9A-HJKMNP-TV-Z]{25}|key:[^/]+|-)$"))
                .max_length(Some("key:".len() + 255))
                .into(),
            "The job: its id, or `key:` and its key, percent-encoded. For a key with `/`: `-`, and the key in the query.",
        ),
        "limit" => (
            Ref::from_schema_name("LimitName").into(),
            "The name of the limit, unique in its namespace.",
        ),
        "relay" => (
            Ref::from_schema_name("RelayName").into(),
            "The name of the relay, unique in its namespace.",
        ),
        "schedule" => (
            Ref::from_schema_name("ScheduleName").into(),
            "The name of the schedule, unique in its namespace.",
        ),
        _ => (
            text().min_length(Some(1)).into(),
            "The id of the API key, which is a part of its secret.",
        ),
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(schema))
        .description(Some(description))
        .build()
}

fn in_query<T: IntoParams>() -> Vec<Parameter> {
    T::into_params(|| Some(ParameterIn::Query))
}

pub(in crate::v1) fn of_job() -> Vec<Parameter> {
    in_query::<JobQuery>()
}

pub(in crate::v1) fn of_result() -> Vec<Parameter> {
    in_query::<ResultQuery>()
}

pub(in crate::v1) fn of_cancel() -> Vec<Parameter> {
    in_query::<CancelQuery>()
}

pub(in crate::v1) fn of_list() -> Vec<Parameter> {
    in_query::<ListQuery>()
}

pub(in crate::v1) fn of_job_list() -> Vec<Parameter> {
    [in_query::<JobFilter>(), of_list()].concat()
}

/// A header with an `ETag`, or `*`.
fn condition(name: &str, pattern: &str, description: &str) -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern));
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .schema(Some(schema))
        .description(Some(description))
        .build()
}

/// `*`, or the revision of an entry of a table in quotes.
const ETAG_OR_ANY: &str = "^([*]|\"(0|[1-9][0-9]{0,17}[.][0-9a-f]{8})\")$";

pub(in crate::v1) fn of_policy_change() -> Vec<Parameter> {
    let is = "The `ETag` of the policy that the change is made for, or `*` for any. If the policy has another one, nothing is changed.";
    let is_none = "`*`: the queue must have no policy. Otherwise nothing is changed.";
    vec![
        condition("If-Match", ETAG_OR_ANY, is),
        condition("If-None-Match", "^[*]$", is_none),
    ]
}

pub(in crate::v1) fn of_limit_change() -> Vec<Parameter> {
    of_change("limit")
}

pub(in crate::v1) fn of_relay_change() -> Vec<Parameter> {
    of_change("relay")
}

pub(in crate::v1) fn of_schedule_change() -> Vec<Parameter> {
    of_change("schedule")
}

pub(in crate::v1) fn of_next_runs() -> Vec<Parameter> {
    in_query::<NextRunsQuery>()
}

fn of_change(what: &str) -> Vec<Parameter> {
    let is = format!(
        "The `ETag` of the {what} that the change is made for, or `*` for any {what} that exists. Otherwise nothing is changed."
    );
    let is_none =
        format!("`*`: there must be no {what} with this name. Otherwise nothing is changed.");
    vec![
        condition("If-Match", ETAG_OR_ANY, &is),
        condition("If-None-Match", "^[*]$", &is_none),
    ]
}

/// The options of a publish. Each may be a header instead, which the document does not list: generators would make two
/// arguments of an option.
pub(in crate::v1) fn of_publish() -> Vec<Parameter> {
    let mut parameters = in_query::<JobOptions>();
    for parameter in &mut parameters {
        if parameter.name == RETRY {
            let content = Content::new(parameter.schema.take());
            parameter.content =
                BTreeMap::from([("application/json".to_owned(), RefOr::T(content))]);
        }
    }
    parameters
}

/// The options of a call.
pub(in crate::v1) fn of_call() -> Vec<Parameter> {
    let mut parameters = of_publish();
    let mut wait = in_query::<ResultQuery>();
    wait.retain(|parameter| parameter.name == WAIT);
    for parameter in &mut wait {
        parameter.required = Required::True;
        parameter.description =
            Some("How long the answer waits for the end of the job.".to_owned());
    }
    parameters.extend(wait);
    parameters
}

#[cfg(test)]
mod tests {
    use tidegate_core::v1::input::merge_option_headers;

    use super::*;

    fn header_name(option: &str) -> String {
        match option {
            "idempotency_key" => "Idempotency-Key".to_owned(),
            _ => format!("Tidegate-{}", option.replace('_', "-")),
        }
    }

    #[test]
    fn the_header_of_an_option_is_read_as_that_option() {
        let options = in_query::<JobOptions>();
        assert_eq!(options.len(), 15);
        for option in &options {
            let header = header_name(&option.name);
            let read = merge_option_headers(Vec::new(), [(header.as_str(), &b"x"[..])]);
            assert_eq!(read.unwrap(), [(option.name.as_str().into(), "x".into())]);
        }
    }

    #[test]
    fn paths_have_their_parameters() {
        let names: Vec<String> = of_path("/v1/{namespace}/queues/{queue}/jobs/{job}")
            .map(|parameter| parameter.name)
            .collect();
        assert_eq!(names, ["namespace", "queue", "job"]);
    }
}
