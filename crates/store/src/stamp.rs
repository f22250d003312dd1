//! The stamp of a deployment, the value of `tg:layout`: its layout, and a random id.

use rand::distr::{Alphanumeric, SampleString};
use tidegate_core::codec::LAYOUT_VERSION;

use crate::config::StoreConfig;

/// Length of the random id of a deployment: 119 bits.
const ID_CHARS: usize = 20;

/// The layout that a process expects, as the begin of a stamp.
fn layout(config: &StoreConfig) -> String {
    let StoreConfig {
        buckets, slot_ms, ..
    } = config;
    format!("layout={LAYOUT_VERSION} buckets={buckets} slot_ms={slot_ms}")
}

/// The stamp of a deployment with this id.
pub(crate) fn with_id(config: &StoreConfig, id: &str) -> String {
    format!("{} id={id}", layout(config))
}

/// The stamp of a new deployment.
pub(crate) fn random(config: &StoreConfig) -> String {
    with_id(
        config,
        &Alphanumeric.sample_string(&mut rand::rng(), ID_CHARS),
    )
}

/// The id in a stamp. `None` = it has another layout than a process expects, or no id.
pub(crate) fn id_of<'a>(stamp: &'a str, config: &StoreConfig) -> Option<&'a str> {
    let id = stamp.strip_prefix(&layout(config))?.strip_prefix(" id=")?;
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_has_the_layout_and_an_id() {
        let config = StoreConfig::new("redis://127.0.0.1");
        let stamp = random(&config);
        assert_eq!(id_of(&stamp, &config).unwrap().len(), ID_CHARS);
        let layout = layout(&config);
        let longer = format!("{layout}0 id=a");
        for other in ["", &layout, &longer, &with_id(&config, "")] {
            assert_eq!(id_of(other, &config), None, "{other}");
        }
        assert_ne!(stamp, random(&config));
    }
}
