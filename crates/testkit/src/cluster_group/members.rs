//! Nodes that leave a cluster.

use super::ClusterGroup;

impl ClusterGroup {
    /// Has a replica leave the cluster: it forgets all nodes, and they forget it. It runs on as a cluster of its own.
    ///
    /// # Panics
    /// When a server does not answer.
    pub async fn have_leave(&self, replica: usize) {
        let port = self.servers[replica].port();
        let id = self.nodes().await[&port].id.clone();
        let reset = redis::cmd("CLUSTER").arg("RESET").arg("HARD").to_owned();
        let asked = self.ask::<String>(replica, &reset).await;
        asked.expect("a replica forgets its cluster");
        let forget = redis::cmd("CLUSTER").arg("FORGET").arg(id).to_owned();
        for other in self.running().filter(|other| *other != replica) {
            // One that has left knows no other.
            let _ = self.ask::<String>(other, &forget).await;
        }
    }
}
