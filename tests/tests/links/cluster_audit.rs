//! `tidegate-pumpd audit` on a cluster: it covers all primaries, and is refused while slots move.

use std::time::Duration;

use tidegate_core::keys::DeploymentKeys;
use tidegate_core::{QueueKey, placement};
use tidegate_testkit::cluster_group::PASSWORD;
use tidegate_testkit::{ClusterGroup, DaemonProgram, ProgramExit, run_until_exit};

use crate::fleet::Fleet;

use crate::turn;

const QUEUES: usize = 12;
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_covers_all_primaries_and_refuses_while_a_slot_moves() {
    let _turn = turn().await;
    let group = ClusterGroup::start().await;
    let fleet = Fleet::start(1, 1, &group.settings()).await;
    let mut owners = std::collections::BTreeSet::new();
    for number in 0..QUEUES {
        let name = format!("q{number}");
        let queue = fleet.queue(&name).await;
        queue.publish("x".repeat(3000)).delay_s(60).id().await;
        queue.publish("ready").id().await;
        let key = QueueKey::try_from(format!("shop/{name}").as_str()).unwrap();
        let slot = group
            .slot_of_bucket(placement::bucket_of(&key, 0, 256), 256)
            .await;
        owners.insert(group.owner_of(slot).await);
    }
    assert_eq!(owners.len(), 3, "the queues are not on all primaries");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("settings.toml");
    std::fs::write(&config, format!("[pool.default]\n{}", group.settings())).unwrap();
    let audit = async |more: &[&str]| -> ProgramExit {
        let flags = [&["audit", "--config", config.to_str().unwrap()], more].concat();
        run_until_exit(DaemonProgram::Pumpd, &flags, LIMIT).await
    };
    let sound = format!("256 buckets, {} jobs: 0 findings", 2 * QUEUES);
    let ended = audit(&[]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.log.contains(&sound), "{}", ended.log);

    // One body without a job on each primary.
    let mut damaged = std::collections::BTreeSet::new();
    let buckets = DeploymentKeys::new(256);
    for bucket in 0..256_u16 {
        let owner = group
            .owner_of(group.slot_of_bucket(bucket, 256).await)
            .await;
        if damaged.insert(owner) {
            let client = redis::Client::open(group.url(owner)).unwrap();
            let mut connection = client.get_connection().unwrap();
            let key = buckets.keys(bucket).body(1_000_001);
            redis::cmd("SET")
                .arg(key)
                .arg("x")
                .exec(&mut connection)
                .unwrap();
        }
    }
    let ended = audit(&["--repair"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(
        ended.log.contains("3 findings, 3 repaired"),
        "{}",
        ended.log
    );

    let slot = group.slot_of_bucket(17, 256).await;
    let on_its_way = group
        .begin_move(slot, (group.owner_of(slot).await + 1) % 3)
        .await;
    let ended = audit(&[]).await;
    assert_eq!(ended.code, Some(2), "{}", ended.log);
    assert!(
        ended.log.contains("audit again when no slot moves"),
        "{}",
        ended.log
    );
    while on_its_way.move_keys(100).await > 0 {}
    on_its_way.end().await;
    let ended = audit(&[]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.log.contains(&sound), "{}", ended.log);
    assert!(!ended.log.contains(PASSWORD), "{}", ended.log);
}
