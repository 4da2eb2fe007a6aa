//! The operations of policies, and the pairs of AutoAugment.

/// An operation of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Saturation,
    Contrast,
    Sharpness,
    Posterise,
    Solarise,
    Autocontrast,
    Equalise,
    Invert,
}

use Act::{
    Autocontrast, Brightness, Contrast, Equalise, Invert, Posterise, Rotate, Saturation, Sharpness, ShearX, ShearY,
    Solarise, TranslateX, TranslateY,
};

/// Pairs of operations (Cubuk and others: "AutoAugment: Learning Augmentation Strategies from Data", 2018), as in
/// torchvision: the probability of each operation, and its magnitude from 0 to 9, 0 if it has none.
type Pairs = [[(Act, f64, u32); 2]; 25];

pub(super) const IMAGENET: Pairs = [
    [(Posterise, 0.4, 8), (Rotate, 0.6, 9)],
    [(Solarise, 0.6, 5), (Autocontrast, 0.6, 0)],
    [(Equalise, 0.8, 0), (Equalise, 0.6, 0)],
    [(Posterise, 0.6, 7), (Posterise, 0.6, 6)],
    [(Equalise, 0.4, 0), (Solarise, 0.2, 4)],
    [(Equalise, 0.4, 0), (Rotate, 0.8, 8)],
    [(Solarise, 0.6, 3), (Equalise, 0.6, 0)],
    [(Posterise, 0.8, 5), (Equalise, 1.0, 0)],
    [(Rotate, 0.2, 3), (Solarise, 0.6, 8)],
    [(Equalise, 0.6, 0), (Posterise, 0.4, 6)],
    [(Rotate, 0.8, 8), (Saturation, 0.4, 0)],
    [(Rotate, 0.4, 9), (Equalise, 0.6, 0)],
    [(Equalise, 0.0, 0), (Equalise, 0.8, 0)],
    [(Invert, 0.6, 0), (Equalise, 1.0, 0)],
    [(Saturation, 0.6, 4), (Contrast, 1.0, 8)],
    [(Rotate, 0.8, 8), (Saturation, 1.0, 2)],
    [(Saturation, 0.8, 8), (Solarise, 0.8, 7)],
    [(Sharpness, 0.4, 7), (Invert, 0.6, 0)],
    [(ShearX, 0.6, 5), (Equalise, 1.0, 0)],
    [(Saturation, 0.4, 0), (Equalise, 0.6, 0)],
    [(Equalise, 0.4, 0), (Solarise, 0.2, 4)],
    [(Solarise, 0.6, 5), (Autocontrast, 0.6, 0)],
    [(Invert, 0.6, 0), (Equalise, 1.0, 0)],
    [(Saturation, 0.6, 4), (Contrast, 1.0, 8)],
    [(Equalise, 0.8, 0), (Equalise, 0.6, 0)],
];

pub(super) const CIFAR10: Pairs = [
    [(Invert, 0.1, 0), (Contrast, 0.2, 6)],
    [(Rotate, 0.7, 2), (TranslateX, 0.3, 9)],
    [(Sharpness, 0.8, 1), (Sharpness, 0.9, 3)],
    [(ShearY, 0.5, 8), (TranslateY, 0.7, 9)],
    [(Autocontrast, 0.5, 0), (Equalise, 0.9, 0)],
    [(ShearY, 0.2, 7), (Posterise, 0.3, 7)],
    [(Saturation, 0.4, 3), (Brightness, 0.6, 7)],
    [(Sharpness, 0.3, 9), (Brightness, 0.7, 9)],
    [(Equalise, 0.6, 0), (Equalise, 0.5, 0)],
    [(Contrast, 0.6, 7), (Sharpness, 0.6, 5)],
    [(Saturation, 0.7, 7), (TranslateX, 0.5, 8)],
    [(Equalise, 0.3, 0), (Autocontrast, 0.4, 0)],
    [(TranslateY, 0.4, 3), (Sharpness, 0.2, 6)],
    [(Brightness, 0.9, 6), (Saturation, 0.2, 8)],
    [(Solarise, 0.5, 2), (Invert, 0.0, 0)],
    [(Equalise, 0.2, 0), (Autocontrast, 0.6, 0)],
    [(Equalise, 0.2, 0), (Equalise, 0.6, 0)],
    [(Saturation, 0.9, 9), (Equalise, 0.6, 0)],
    [(Autocontrast, 0.8, 0), (Solarise, 0.2, 8)],
    [(Brightness, 0.1, 3), (Saturation, 0.7, 0)],
    [(Solarise, 0.4, 5), (Autocontrast, 0.9, 0)],
    [(TranslateY, 0.9, 9), (TranslateY, 0.7, 9)],
    [(Autocontrast, 0.9, 0), (Solarise, 0.8, 3)],
    [(Equalise, 0.8, 0), (Invert, 0.1, 0)],
    [(TranslateY, 0.7, 9), (Autocontrast, 0.9, 0)],
];

pub(super) const SVHN: Pairs = [
    [(ShearX, 0.9, 4), (Invert, 0.2, 0)],
    [(ShearY, 0.9, 8), (Invert, 0.7, 0)],
    [(Equalise, 0.6, 0), (Solarise, 0.6, 6)],
    [(Invert, 0.9, 0), (Equalise, 0.6, 0)],
    [(Equalise, 0.6, 0), (Rotate, 0.9, 3)],
    [(ShearX, 0.9, 4), (Autocontrast, 0.8, 0)],
    [(ShearY, 0.9, 8), (Invert, 0.4, 0)],
    [(ShearY, 0.9, 5), (Solarise, 0.2, 6)],
    [(Invert, 0.9, 0), (Autocontrast, 0.8, 0)],
    [(Equalise, 0.6, 0), (Rotate, 0.9, 3)],
    [(ShearX, 0.9, 4), (Solarise, 0.3, 3)],
    [(ShearY, 0.8, 8), (Invert, 0.7, 0)],
    [(Equalise, 0.9, 0), (TranslateY, 0.6, 6)],
    [(Invert, 0.9, 0), (Equalise, 0.6, 0)],
    [(Contrast, 0.3, 3), (Rotate, 0.8, 4)],
    [(Invert, 0.8, 0), (TranslateY, 0.0, 2)],
    [(ShearY, 0.7, 6), (Solarise, 0.4, 8)],
    [(Invert, 0.6, 0), (Rotate, 0.8, 4)],
    [(ShearY, 0.3, 7), (TranslateX, 0.9, 3)],
    [(ShearX, 0.1, 6), (Invert, 0.6, 0)],
    [(Solarise, 0.7, 2), (TranslateY, 0.6, 7)],
    [(ShearY, 0.8, 4), (Invert, 0.8, 0)],
    [(ShearX, 0.7, 9), (TranslateY, 0.8, 3)],
    [(ShearY, 0.8, 5), (Autocontrast, 0.7, 0)],
    [(ShearX, 0.7, 2), (Invert, 0.1, 0)],
];
