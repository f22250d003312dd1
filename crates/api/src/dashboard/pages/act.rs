//! `/ui/POOL/queues/NAMESPACE/QUEUE/act`: acts on all jobs that match a filter, counted first. Each request acts for
//! about a second; its answer has the form that goes on. So it is interrupted by leaving the page, and repeated without
//! doing anything twice.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use tidegate_core::QueueKey;
use tidegate_core::limits::ConfigurableLimits;
use tidegate_core::v1::input::read_body;
use tidegate_core::v1::job::{ActBody, ActName};
use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::values::PageSize;
use tidegate_engine::{ActPage, Pool};
use tokio::time::Instant;

use super::super::action::ActionTarget;
use super::super::error::PageError;
use super::super::form::SubmittedForm;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::Visit;
use super::super::{links, text};
use super::jobs::{ERROR_GROUP, FILTER_FIELDS, read_error_group};
use super::queue::{QueuePath, named, trail};
use crate::config::AccountRole;

/// How long one request counts or acts.
const TURN: Duration = Duration::from_secs(1);
/// The fields that a form repeats when it goes on.
const KEPT_FIELDS: [&str; 10] = [
    "do",
    "rate_per_second",
    "delay",
    FILTER_FIELDS[0],
    FILTER_FIELDS[1],
    FILTER_FIELDS[2],
    FILTER_FIELDS[3],
    FILTER_FIELDS[4],
    FILTER_FIELDS[5],
    FILTER_FIELDS[6],
];

/// The outcome of one request.
#[derive(Debug)]
struct ActTurn {
    page: ActPage,
    /// Why it stopped early. Jobs behind the cursor may have been changed, and are not counted then.
    failed: Option<PageError>,
}

/// `GET`, which a browser sends when it comes back to the address: leads to the list.
pub(in super::super) async fn back(visit: Visit, path: QueuePath) -> Result<Response, PageError> {
    let (pool, queue) = named(&visit, path)?;
    Ok(Redirect::to(&links::jobs(&pool.name, &queue)).into_response())
}

/// `POST` counts the jobs first, then acts with `step=run`.
pub(in super::super) async fn act(
    visit: Visit,
    path: QueuePath,
    body: Body,
) -> Result<Response, PageError> {
    let (pool, queue) = named(&visit, path)?;
    let form = visit.read_form(body).await?;
    let wanted = wanted(&form)?;
    visit.need(match wanted.act {
        ActName::Purge => AccountRole::Admin,
        _ => AccountRole::Operate,
    })?;
    let is_run = form.get("step") == Some("run");
    let turn = take_turn(&pool, &queue, &wanted, &form, is_run).await?;
    let kept = form.only(&KEPT_FIELDS);
    if is_run {
        let more = match turn.failed {
            Some(_) => ", result=unknown of more",
            None => "",
        };
        let (changed, matched) = (turn.page.changed, turn.page.matched);
        let detail = format!("{changed} of {matched} changed{more}; {}", described(&kept));
        visit.log("act", ActionTarget::Queue(&pool.name, &queue), &detail);
    }
    if !is_run && let Some(error) = turn.failed {
        return Err(error);
    }
    let content = match is_run {
        false => counted(&visit, &pool, &queue, &kept, &turn),
        true => done(&visit, &pool, &queue, &form, &turn),
    };
    Ok(visit.write(&Page {
        title: format!("Act on jobs of {queue}"),
        place: Some((pool.name.to_string(), Section::Queues)),
        trail: trail(&pool.name, &queue),
        seen: None,
        blocks: vec![PageBlock::fixed("act", content)],
    }))
}

/// The action of a form, checked as the native API checks it.
fn wanted(form: &SubmittedForm) -> Result<ActBody, PageError> {
    if let Some(name) = form.repeated(&KEPT_FIELDS) {
        let text = format!("{name}: the form has it twice.");
        return Err(PageError::Invalid(text));
    }
    let filter: Map<String, Value> = form
        .only(&FILTER_FIELDS)
        .into_iter()
        .filter(|(name, _)| name != ERROR_GROUP)
        .map(|(name, value)| (name, value.into()))
        .collect();
    let mut body = json!({"do": form.get("do"), "filter": filter});
    if let Some(rate) = form.get("rate_per_second") {
        // A text that is no number is refused as such.
        body["rate_per_second"] = rate
            .parse::<u64>()
            .map_or_else(|_| rate.into(), Value::from);
    }
    if let Some(delay) = form.get("delay") {
        body["change"] = json!({"delay": delay});
    }
    let read = read_body(body.to_string().as_bytes(), &ConfigurableLimits::default());
    read.map_err(invalid)
}

fn invalid(invalid: InvalidRequest) -> PageError {
    let field = invalid.field.as_deref().map(|field| format!("{field}: "));
    PageError::Invalid(format!("{}{}", field.unwrap_or_default(), invalid.detail))
}

/// Counts or acts for [`TURN`]. Fails only before it begins.
async fn take_turn(
    pool: &Pool,
    queue: &QueueKey,
    wanted: &ActBody,
    form: &SubmittedForm,
    is_run: bool,
) -> Result<ActTurn, PageError> {
    let cursor = form.get("cursor").map(str::parse).transpose();
    let cursor = cursor.map_err(|_| {
        PageError::Invalid("The action cannot go on here: begin it again.".to_owned())
    })?;
    let mut turn = ActTurn {
        page: ActPage::beginning_at(cursor.unwrap_or_default()),
        failed: None,
    };
    let mut act = wanted.clone();
    act.filter.error_digest = read_error_group(&form.only(&[ERROR_GROUP])).map_err(invalid)?;
    act.limit = PageSize::MAX;
    act.dry_run = !is_run;
    let ends_at = Instant::now() + TURN;
    while let Some(cursor) = turn.page.next.take_if(|_| Instant::now() < ends_at) {
        let begin = cursor.clone();
        let page = pool.act(queue, &act, cursor);
        let page = match page.await {
            Ok(page) => page,
            Err(error) => {
                turn.page.next = Some(begin);
                turn.failed = Some(error.into());
                break;
            }
        };
        turn.page.matched += page.matched;
        turn.page.changed += page.changed;
        turn.page.next = page.next;
        turn.page.wait = page.wait;
        if !page.wait.is_zero() {
            break;
        }
    }
    Ok(turn)
}

/// The action and the filter in words.
fn described(kept: &[(String, String)]) -> String {
    let pairs = kept.iter().map(|(name, value)| format!("{name} = {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}

/// The hidden fields of a form that goes on.
fn hidden(visit: &Visit, kept: &[(String, String)]) -> Markup {
    html! {
        (visit.token.field())
        @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
        input type="hidden" name="step" value="run";
    }
}

fn counted(
    visit: &Visit,
    pool: &Pool,
    queue: &QueueKey,
    kept: &[(String, String)],
    turn: &ActTurn,
) -> Markup {
    html! {
        p { code { (described(kept)) } }
        p #count {
            @if turn.page.next.is_some() { "At least " }
            strong { (text::jobs(turn.page.matched)) }
            @if turn.page.matched == 1 { " matches." } @else { " match." }
        }
        form.row method="post" action=(links::act(&pool.name, queue)) {
            (hidden(visit, kept))
            button.danger disabled[turn.page.matched == 0 && turn.page.next.is_none()] { "Do it" }
            a.button href=(links::jobs(&pool.name, queue)) { "Leave it" }
        }
    }
}

fn done(
    visit: &Visit,
    pool: &Pool,
    queue: &QueueKey,
    form: &SubmittedForm,
    turn: &ActTurn,
) -> Markup {
    // The outcome of the requests before. It is shown only: a client may write anything there.
    let before = |name| {
        let text = form.get(name);
        text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    let changed = before("changed").saturating_add(turn.page.changed);
    let matched = before("matched").saturating_add(turn.page.matched);
    let kept = &form.only(&KEPT_FIELDS);
    html! {
        p { code { (described(kept)) } }
        p #progress role="status" {
            strong { (text::jobs(changed)) " changed" }
            " of " (text::number(matched)) " that matched"
            @if turn.page.next.is_some() { " so far." } @else { ". That is all." }
        }
        @if let Some(error) = &turn.failed {
            p.problem role="alert" {
                (error.message()) " More jobs may have been changed. “Go on” continues here, and changes none twice."
            }
        }
        @if let Some(next) = &turn.page.next {
            form.row method="post" action=(links::act(&pool.name, queue))
                data-continue-ms=[turn.failed.is_none().then(|| turn.page.wait.as_millis())] {
                (hidden(visit, kept))
                input type="hidden" name="cursor" value=(next.to_string());
                input type="hidden" name="matched" value=(matched);
                input type="hidden" name="changed" value=(changed);
                button { "Go on" }
                a.button href=(links::jobs(&pool.name, queue)) { "Stop here" }
            }
        } @else {
            p { a.button href=(links::queue(&pool.name, queue)) { "Back to the queue" } }
        }
    }
}
