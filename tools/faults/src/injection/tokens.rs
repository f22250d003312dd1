//! Revocation of tokens.

use super::open_episode::OpenEpisode;
use crate::fault::PlannedFault;
use crate::history::{ClientRequest, Episode, RequestOutcome};
use crate::recorder::RequestSource;
use crate::test_cluster::TestCluster;
use crate::traffic::ClientState;

/// Deletes the token with which guests are waiting, and gives them another one later. Excuses nothing: the
/// queue of the guests has other consumers too.
pub(super) async fn revoke(
    test_cluster: &TestCluster,
    shared: &ClientState,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let (number, token) = shared.guest();
    let open_episode = OpenEpisode::start(fault);
    let request = ClientRequest::Revoke { token: number };
    let api = &test_cluster.apis[fault.target % test_cluster.apis.len()].daemon;
    let doing = async {
        match test_cluster
            .queue(0)
            .with_token(&token)
            .try_revoke(api)
            .await
        {
            Ok(answer) if answer.status == 200 || answer.status == 204 => RequestOutcome::Deleted,
            Ok(answer) => RequestOutcome::Failed(answer.status),
            Err(error) if error.is_connect() => RequestOutcome::NotSent,
            Err(error) => RequestOutcome::Unknown(error.to_string()),
        }
    };
    let outcome = shared
        .recorder
        .record(RequestSource::default(), &request, doing)
        .await;
    tokio::time::sleep(fault.length()).await;
    shared.set_guest(number + 1, test_cluster.new_token().await);
    vec![open_episode.end(format!("token {number} revoked: {outcome:?}"))]
}
