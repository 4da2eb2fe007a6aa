use serde::Serialize;

use crate::counters::Damage;

/// How many images had one kind of damage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DamageStats {
    /// The kind, in words: `stray bytes before a marker`, `data that ends early`, `surplus data`, `bits that are no
    /// code`, `wrong restart markers`, `wrong scan headers` or `no end-of-image marker`.
    pub kind: &'static str,
    /// Images that have it.
    pub images: u64,
}

impl DamageStats {
    /// The kinds that occurred.
    pub(crate) fn of(images: [u64; Damage::ALL.len()]) -> Vec<Self> {
        let damage = Damage::ALL.iter().zip(images).map(|(damage, images)| Self { kind: damage.as_str(), images });
        damage.filter(|damage| damage.images > 0).collect()
    }
}
