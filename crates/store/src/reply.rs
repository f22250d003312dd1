//! Reading the reply of a script: a token that names the outcome, then values in the order of the `Returns` line of the
//! script's contract.

use std::str::FromStr;

use bytes::Bytes;
use redis::Value;
use tidegate_core::{InvalidPlacement, JobId, JobState};

use crate::error::StoreError;

pub(crate) struct Reply {
    token: String,
    values: std::vec::IntoIter<Value>,
}

impl Reply {
    pub(crate) fn new(value: Value) -> Result<Self, StoreError> {
        let Value::Array(values) = value else {
            return Err(unexpected(&value));
        };
        let mut values = values.into_iter();
        let mut reply = match values.next() {
            Some(Value::BulkString(token)) => Self {
                token: String::from_utf8_lossy(&token).into_owned(),
                values,
            },
            other => return Err(unexpected(&other.unwrap_or(Value::Nil))),
        };
        // Any script that finds jobs by their keys may refuse the placement.
        match reply.token() {
            "stale" => Err(StoreError::PlacementStale(reply.parsed()?)),
            _ => Ok(reply),
        }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The error for a token that the script must not return.
    pub(crate) fn unknown<T>(&self) -> Result<T, StoreError> {
        Err(StoreError::corrupt(format!(
            "script returned the unknown outcome {:?}",
            self.token
        )))
    }

    /// The reply itself if its token is `ok`, otherwise an error.
    pub(crate) fn ok(self) -> Result<Self, StoreError> {
        if self.token == "ok" {
            Ok(self)
        } else {
            self.unknown()
        }
    }

    /// Whether the caller does not lead the bucket.
    pub(crate) fn is_lost(&self) -> Result<bool, StoreError> {
        match self.token() {
            "ok" => Ok(false),
            "lost" => Ok(true),
            _ => self.unknown(),
        }
    }

    /// The number of values that were not read yet.
    pub(crate) fn left(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn has_more(&self) -> bool {
        self.left() > 0
    }

    pub(crate) fn integer(&mut self) -> Result<i64, StoreError> {
        match self.values.next() {
            Some(Value::Int(number)) => Ok(number),
            other => Err(unexpected(&other.unwrap_or(Value::Nil))),
        }
    }

    /// An integer that cannot be negative.
    pub(crate) fn count(&mut self) -> Result<u64, StoreError> {
        let number = self.integer()?;
        u64::try_from(number).map_err(|_| unexpected(&Value::Int(number)))
    }

    /// A duration or a number; -1 = none.
    pub(crate) fn optional(&mut self) -> Result<Option<u64>, StoreError> {
        Ok(u64::try_from(self.integer()?).ok())
    }

    pub(crate) fn flag(&mut self) -> Result<bool, StoreError> {
        Ok(self.integer()? != 0)
    }

    pub(crate) fn state(&mut self) -> Result<JobState, StoreError> {
        state(self.count()?)
    }

    /// The number, the creation time and the nonce of a job of `bucket`.
    pub(crate) fn job_id(&mut self, bucket: u16) -> Result<JobId, StoreError> {
        let (number, created_ms, nonce) = (self.count()?, self.count()?, self.count()?);
        let nonce = u16::try_from(nonce).unwrap_or_default();
        Ok(JobId::new(created_ms, bucket, number, nonce))
    }

    pub(crate) fn bytes(&mut self) -> Result<Bytes, StoreError> {
        match self.values.next() {
            Some(Value::BulkString(bytes)) => Ok(bytes.into()),
            other => Err(unexpected(&other.unwrap_or(Value::Nil))),
        }
    }

    /// A placement, or a part of it.
    pub(crate) fn parsed<T: FromStr<Err = InvalidPlacement>>(&mut self) -> Result<T, StoreError> {
        let text = String::from_utf8_lossy(&self.bytes()?).into_owned();
        let invalid = |_| StoreError::corrupt(format!("{text:?} is no placement of keys"));
        text.parse().map_err(invalid)
    }

    pub(crate) fn texts(&mut self) -> Result<Vec<String>, StoreError> {
        let value = self.values.next().unwrap_or(Value::Nil);
        redis::from_redis_value(value).map_err(|error| StoreError::corrupt(error.to_string()))
    }
}

pub(crate) fn state(number: u64) -> Result<JobState, StoreError> {
    let state = u8::try_from(number).ok().and_then(JobState::from_number);
    state.ok_or_else(|| StoreError::corrupt(format!("script returned the unknown state {number}")))
}

/// The error names the type of the value, not its content, which may be the payload of a job.
fn unexpected(value: &Value) -> StoreError {
    let kind = match value {
        Value::Nil => "nothing",
        Value::Int(_) => "an integer",
        Value::BulkString(_) => "bytes",
        Value::Array(_) => "an array",
        _ => "a value of an unknown type",
    };
    StoreError::corrupt(format!(
        "script returned {kind} where another type was expected"
    ))
}
