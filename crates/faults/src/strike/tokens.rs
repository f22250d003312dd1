//! What happens to tokens.

use super::Begun;
use crate::fault::Fault;
use crate::history::{Episode, Outcome, Request};
use crate::recorder::Sender;
use crate::site::Site;
use crate::traffic::Shared;

/// Deletes the token with which guests wait, and gives them another one later. Excuses nothing: the queue of guests has
/// other consumers.
pub(super) async fn revoke(site: &Site, shared: &Shared, fault: &Fault) -> Vec<Episode> {
    let (number, token) = shared.guest();
    let begun = Begun::now(fault);
    let request = Request::Revoke { token: number };
    let api = &site.apis[fault.target % site.apis.len()].daemon;
    let doing = async {
        match site.queue(0).with_token(&token).try_revoke(api).await {
            Ok(answer) if answer.status == 200 || answer.status == 204 => Outcome::Deleted,
            Ok(answer) => Outcome::Failed(answer.status),
            Err(error) if error.is_connect() => Outcome::NotSent,
            Err(error) => Outcome::Unknown(error.to_string()),
        }
    };
    let outcome = shared
        .recorder
        .note(Sender::default(), request, doing)
        .await;
    tokio::time::sleep(fault.length()).await;
    shared.set_guest(number + 1, site.new_token().await);
    vec![begun.end(format!("token {number} revoked: {outcome:?}"))]
}
