//! A pool moves from one Redis to another, and back.

use super::pods::restart;
use super::{Begun, RECOVERY};
use crate::fault::Fault;
use crate::history::Episode;
use crate::site::Site;

/// One API after the other stores new jobs in the other Redis. All look into both, before and after. A queue has
/// consumers at each API, so that an API is away excuses lateness only for a moment.
pub(super) async fn change(site: &Site, fault: &Fault) -> Vec<Episode> {
    let begun = Begun::now(fault);
    site.keeper.turn_around();
    for api in &site.apis {
        api.change_settings(&site.keeper);
        restart(api).await;
        tokio::time::sleep(fault.length() / site.apis.len() as u32).await;
    }
    vec![begun.end_excusing("the pool moved to its other Redis".to_owned(), RECOVERY)]
}
