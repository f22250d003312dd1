//! Moves hash slots from one primary to another while clients continue.

use redis::Cmd;
use tidegate_core::keys::DeploymentKeys;

use super::{ClusterGroup, PASSWORD, connect};

/// A slot in migration. Until [`SlotMove::end`] each of its keys is on either server.
#[derive(Debug)]
pub struct SlotMove<'a> {
    group: &'a ClusterGroup,
    slot: u16,
    from: usize,
    to: usize,
}

impl ClusterGroup {
    /// Returns the slot of a bucket in a deployment with `buckets` buckets.
    ///
    /// # Panics
    /// If no server answers.
    pub async fn slot_of_bucket(&self, bucket: u16, buckets: u32) -> u16 {
        let buckets = DeploymentKeys::new(buckets);
        self.slot_of(&buckets.keys(bucket).queues()).await
    }

    /// Returns the slot of a key.
    ///
    /// # Panics
    /// If no server answers.
    pub async fn slot_of(&self, key: &str) -> u16 {
        let mut ask = redis::cmd("CLUSTER");
        ask.arg("KEYSLOT").arg(key);
        let first = self.running().next().expect("a server runs");
        self.query(first, &ask)
            .await
            .expect("a server computes slots")
    }

    /// Returns the primary that owns a slot.
    ///
    /// # Panics
    /// If no primary owns it.
    pub async fn owner_of(&self, slot: u16) -> usize {
        let has_it = |(first, last): &(u16, u16)| (*first..=*last).contains(&slot);
        let nodes = self.nodes().await;
        let mut primaries = nodes.values().filter(|node| node.is_primary);
        let owner = primaries.find(|node| node.slots.iter().any(has_it));
        let owner = owner.and_then(|node| self.server_with_port(node.port));
        owner.expect("a slot has an owner")
    }

    /// Begins the migration of a slot to another primary.
    ///
    /// # Panics
    /// If a server rejects a command.
    pub async fn begin_move(&self, slot: u16, to: usize) -> SlotMove<'_> {
        let from = self.owner_of(slot).await;
        assert_ne!(from, to, "the target already owns the slot");
        let (source, target) = (self.id_of(from).await, self.id_of(to).await);
        self.set_slot(to, slot, "IMPORTING", &source).await;
        self.set_slot(from, slot, "MIGRATING", &target).await;
        SlotMove {
            group: self,
            slot,
            from,
            to,
        }
    }

    /// Moves a slot to another primary.
    ///
    /// # Panics
    /// If a server rejects a command.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        const KEYS_AT_ONCE: usize = 100;
        let on_its_way = self.begin_move(slot, to).await;
        while on_its_way.move_keys(KEYS_AT_ONCE).await > 0 {}
        on_its_way.end().await;
    }

    async fn id_of(&self, server: usize) -> String {
        let nodes = self.nodes_seen_by(server).await.expect("a server answers");
        let ours = nodes.into_values().find(|node| node.is_myself);
        ours.expect("a server knows itself").id
    }

    async fn set_slot(&self, server: usize, slot: u16, what: &str, id: &str) {
        let mut set = redis::cmd("CLUSTER");
        set.arg("SETSLOT").arg(slot).arg(what).arg(id);
        self.query::<String>(server, &set)
            .await
            .expect("a slot is set");
    }
}

impl SlotMove<'_> {
    /// Moves up to `count` of the remaining keys. Returns how many were moved.
    ///
    /// # Panics
    /// If a server rejects a command.
    pub async fn move_keys(&self, count: usize) -> usize {
        let mut list = redis::cmd("CLUSTER");
        list.arg("GETKEYSINSLOT").arg(self.slot).arg(count);
        let keys: Vec<Vec<u8>> = self.query(&list).await;
        if keys.is_empty() {
            return 0;
        }
        let target = self.group.servers[self.to].address();
        let mut migrate = redis::cmd("MIGRATE");
        migrate
            .arg(target.ip().to_string())
            .arg(target.port())
            .arg("")
            .arg(0)
            .arg(5000)
            .arg("AUTH")
            .arg(PASSWORD)
            .arg("KEYS")
            .arg(&keys);
        let _: String = self.query(&migrate).await;
        keys.len()
    }

    /// Ends the migration after all keys have moved: assigns the slot to the target on every primary.
    ///
    /// # Panics
    /// If a server rejects a command.
    pub async fn end(self) {
        let target = self.group.id_of(self.to).await;
        // The new owner first, so that the slot always has an owner; then the old one, then the
        // others.
        let mut servers = vec![self.to, self.from];
        let primaries = self.group.primaries().await;
        servers.extend(
            primaries
                .into_iter()
                .filter(|one| ![self.to, self.from].contains(one)),
        );
        for server in servers {
            self.group
                .set_slot(server, self.slot, "NODE", &target)
                .await;
        }
    }

    async fn query<T: redis::FromRedisValue>(&self, command: &Cmd) -> T {
        let url = self.group.url(self.from);
        let mut connection = connect(&url).await.expect("redis answers");
        let answer = command.query_async(&mut connection).await;
        answer.unwrap_or_else(|error| panic!("{error}"))
    }
}
