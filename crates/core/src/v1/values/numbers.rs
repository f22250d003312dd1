//! Whole numbers with a range.

use serde::{Deserialize, Serialize};

use crate::limits::{
    ATTEMPTS_MAX, PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, PRIORITY_MAX, QUEUE_WEIGHT_MAX,
    RESERVE_JOBS_MAX, RESPAWN_RATE_MAX, SCHEDULE_RUNS_MAX,
};
use crate::v1::problem::InvalidValue;

/// Defines a number that is checked when it is made.
macro_rules! number_type {
    ($(#[$doc:meta])* $name:ident($inner:ty), $what:literal, $least:literal..=$most:expr, default $default:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "u64")]
        pub struct $name($inner);

        impl $name {
            /// The least number.
            pub const MIN: Self = Self($least);
            /// The greatest number.
            pub const MAX: Self = Self($most);

            /// The number.
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self($default)
            }
        }

        impl TryFrom<u64> for $name {
            type Error = InvalidValue;

            fn try_from(number: u64) -> Result<Self, InvalidValue> {
                let inner = <$inner>::try_from(number).ok();
                let in_range = inner.filter(|inner| (Self::MIN.0..=Self::MAX.0).contains(inner));
                in_range.map(Self).ok_or_else(|| {
                    let (least, most) = (Self::MIN.0, Self::MAX.0);
                    InvalidValue::new(format!("{} must be from {least} to {most}, not {number}", $what))
                })
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::Integer)
                    .minimum(Some(Self::MIN.0))
                    .maximum(Some(Self::MAX.0))
                    .description(Some(concat!("A whole number: ", $what, ".")))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
        }
    };
}

number_type! {
    /// After how many failed attempts a job is dead. The default is 10.
    MaxAttempts(u16), "the number of attempts", 1..=ATTEMPTS_MAX, default 10
}

number_type! {
    /// How early a job is delivered among the ready jobs of its queue: 4 is first, 0 is the default.
    Priority(u8), "the priority", 0..=PRIORITY_MAX, default 0
}

impl Priority {
    /// Whether it is 0.
    pub const fn is_lowest(&self) -> bool {
        self.0 == 0
    }

    /// The priority with this number; a greater number is the highest priority.
    pub const fn saturating(number: u8) -> Self {
        match number > PRIORITY_MAX {
            true => Self::MAX,
            false => Self(number),
        }
    }
}

number_type! {
    /// How often a job that counts deliveries is delivered at most.
    MaxDeliveries(u16), "the number of deliveries", 1..=u16::MAX, default 1
}

number_type! {
    /// How many jobs a reserve call returns at most. The default is 1.
    MaxJobs(u16), "the number of jobs", 1..=RESERVE_JOBS_MAX, default 1
}

number_type! {
    /// How often a queue is looked into first, compared with the other queues of a reserve call. The default is 1.
    QueueWeight(u16), "the weight of a queue", 1..=QUEUE_WEIGHT_MAX, default 1
}

number_type! {
    /// How many items a page of a list has at most. The default is 100.
    PageSize(u16), "the number of items of a page", 1..=PAGE_ITEMS_MAX, default PAGE_ITEMS_DEFAULT
}

number_type! {
    /// How many next runs of a schedule are returned at most. The default is 10.
    RunCount(u16), "the number of runs", 1..=SCHEDULE_RUNS_MAX, default 10
}

number_type! {
    /// How many jobs a second become due when dead jobs come back.
    JobsPerSecond(u32), "the number of jobs a second", 1..=RESPAWN_RATE_MAX, default RESPAWN_RATE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_inclusive() {
        for number in [1_u16, 2, 100] {
            let weight: QueueWeight = serde_json::from_str(&number.to_string()).unwrap();
            assert_eq!(weight.get(), number);
            assert_eq!(serde_json::to_string(&weight).unwrap(), number.to_string());
        }
        for bad in [
            "0",
            "101",
            "65537",
            "-1",
            "1.5",
            "\"3\"",
            "1e0",
            "18446744073709551616",
        ] {
            assert!(serde_json::from_str::<QueueWeight>(bad).is_err(), "{bad}");
        }
        let error = QueueWeight::try_from(101).unwrap_err();
        assert_eq!(
            error.detail,
            "the weight of a queue must be from 1 to 100, not 101"
        );
        assert!(MaxAttempts::try_from(4_095).is_ok() && MaxAttempts::try_from(4_096).is_err());
        assert!(MaxJobs::try_from(256).is_ok() && MaxJobs::try_from(257).is_err());
        assert!(QueueWeight::try_from(101).is_err() && PageSize::try_from(1_001).is_err());
    }

    #[test]
    fn defaults_are_in_range() {
        assert_eq!(MaxAttempts::default().get(), 10);
        assert_eq!(MaxJobs::default(), MaxJobs::MIN);
        assert_eq!(QueueWeight::default(), QueueWeight::MIN);
        assert_eq!(PageSize::default().get(), 100);
        assert_eq!(JobsPerSecond::default(), JobsPerSecond::MAX);
    }
}
