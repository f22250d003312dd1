//! The middle of several measurements, and how far they are apart.

use std::fmt;

/// The median of values, the least and the largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Values that are not finite are left out. `None` if no others are there.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let mut sorted: Vec<f64> = finite.collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        Some(Self {
            median: f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]),
            least: sorted[0],
            most: sorted[last],
        })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            median,
            least,
            most,
        } = self;
        write!(f, "{median:.2} ({least:.2} to {most:.2})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_ones() {
        let spread = Spread::of([4.0, f64::NAN, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(spread.to_string(), "2.50 (1.00 to 4.00)");
        assert_eq!(Spread::of([7.0]).unwrap().median, 7.0);
        assert_eq!(Spread::of([f64::INFINITY]), None);
    }
}
