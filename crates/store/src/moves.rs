//! Whether new jobs of a deployment are stored in another one, as all processes have to know: one whose settings do not name
//! the other deployment would take a job there for one that is gone.

use redis::Cmd;
use tidegate_core::keys;

use crate::error::StoreError;
use crate::store::Store;

impl Store {
    /// Records that new jobs are stored elsewhere: in the pool of this name.
    ///
    /// # Errors
    /// Redis is unavailable, or full.
    pub async fn set_moves_to(&self, pool: &str) -> Result<(), StoreError> {
        self.command(&Cmd::set(keys::MOVES_TO, pool)).await
    }

    /// Records that new jobs are stored here.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn clear_moves_to(&self) -> Result<(), StoreError> {
        self.command(&Cmd::del(keys::MOVES_TO)).await
    }

    /// Whether new jobs are stored elsewhere.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn moves_elsewhere(&self) -> Result<bool, StoreError> {
        self.command(&Cmd::exists(keys::MOVES_TO)).await
    }
}
