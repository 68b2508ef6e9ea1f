"""Operations and bytes of kernels, and how close these come to the peak rates of the device."""
