package info

// The formats of ginfo: those of sinfo(1), and last the GPUs, free and all.
const (
	infoFormat         = "%#P %.5a %.10l %.6D %.6t %#N %x"
	infoSummaryFormat  = "%#P %.5a %.10l %.16F  %#N %x"
	infoLongFormat     = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %#N %x"
	infoNodeFormat     = "%#N %.6D %#P %6t %x"
	infoLongNodeFormat = "%#N %.6D %#P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E %x"
	infoReasonFormat   = "%20E %9u %19H %N"
	infoLongReason     = "%20E %12U %19H %6t %N"
)
