"""Operations and bytes of kernels, and how close the kernels come to the limits of the device."""
