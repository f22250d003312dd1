//! Removes nodes from a cluster.

use super::ClusterGroup;

impl ClusterGroup {
    /// Removes a replica from the cluster: it forgets all nodes, and they forget it. It continues to run as a
    /// separate cluster.
    ///
    /// # Panics
    /// If a server does not answer.
    pub async fn remove_replica(&self, replica: usize) {
        let port = self.servers[replica].port();
        let id = self.nodes().await[&port].id.clone();
        let reset = redis::cmd("CLUSTER").arg("RESET").arg("HARD").to_owned();
        let queried = self.query::<String>(replica, &reset).await;
        queried.expect("a replica forgets its cluster");
        let forget = redis::cmd("CLUSTER").arg("FORGET").arg(id).to_owned();
        for other in self.running().filter(|other| *other != replica) {
            // A node that has left rejects this: it does not know the replica.
            let _ = self.query::<String>(other, &forget).await;
        }
    }
}
