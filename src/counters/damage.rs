/// A kind of damage of an image that is loaded nevertheless, because libjpeg loads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    StrayBytes,
    ShortData,
    SurplusData,
    NoCode,
    RestartMarker,
    ScanHeader,
    NoEnd,
}

impl Damage {
    pub(crate) const ALL: [Self; 7] = [
        Self::StrayBytes,
        Self::ShortData,
        Self::SurplusData,
        Self::NoCode,
        Self::RestartMarker,
        Self::ScanHeader,
        Self::NoEnd,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::StrayBytes => "stray bytes before a marker",
            Self::ShortData => "data that ends early",
            Self::SurplusData => "surplus data",
            Self::NoCode => "bits that are no code",
            Self::RestartMarker => "wrong restart markers",
            Self::ScanHeader => "wrong scan headers",
            Self::NoEnd => "no end-of-image marker",
        }
    }
}

/// The kinds of damage of one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damages(u8);

impl Damages {
    pub(crate) fn add(&mut self, damage: Damage) {
        self.0 |= 1 << damage as u8;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Damage> {
        Damage::ALL.into_iter().filter(move |damage| self.0 >> *damage as u8 & 1 == 1)
    }
}

/// How many damaged images were loaded, and by what kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DamageTally {
    pub(crate) images: u64,
    pub(crate) kinds: [u64; Damage::ALL.len()],
}

impl DamageTally {
    pub(crate) fn add(&mut self, damages: Damages) {
        self.images += u64::from(!damages.is_empty());
        for damage in damages.iter() {
            self.kinds[damage as usize] += 1;
        }
    }

    pub(crate) fn add_all(&mut self, other: Self) {
        self.images += other.images;
        for (kind, count) in self.kinds.iter_mut().zip(other.kinds) {
            *kind += count;
        }
    }
}
